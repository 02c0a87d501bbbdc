//! Data sources, transforms and the prefetching loader of oomph.
