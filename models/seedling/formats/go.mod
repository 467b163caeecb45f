// A module of its own, so that users of assay do not download these files: the
// other formats of Seedling and the golden data that the tests read by path.
module assay/models/seedling/formats

go 1.26
