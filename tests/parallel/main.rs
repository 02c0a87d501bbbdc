//! Several devices train what one device does: the same weights after the same steps.

mod chain;
mod ddp;
mod dp;
mod support;
