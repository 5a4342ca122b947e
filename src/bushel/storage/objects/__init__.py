"""Object stores: S3, Google Cloud Storage, Azure Blob Storage and plain HTTP servers, through obstore.

`ObjectPath` (`location`) is the path value that the rest of Bushel sees; `client` makes the connections, `errors` says
what went wrong, `ranges` reads many ranges at once, `remotefile` is an open object.
"""
