"""Object stores: S3, Google Cloud Storage, Azure Blob Storage and plain HTTP servers, through obstore.

The rest of Bushel uses paths (`location`) and open objects (`remotefile`). `client` makes the
connections, `retries` holds the retry policy and the errors, `ranges` reads many ranges at once,
`blockcache` keeps blocks on a local disk, and `upload` writes objects.
"""
