"""Drop-in modules: the five originals' own names over Bushel's dataset, writer and loader.

`bushel.compat.gulpio2`, `granular`, `webdataset`, `ffrecord` and `mxnet` keep the names, arguments
and results of the packages that they replace, and add no second reader or writer of any format.
`docs/compat.md` lists what differs.
"""
