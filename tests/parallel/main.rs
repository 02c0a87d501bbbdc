//! Several devices train what one device does: the same weights after the same steps.

mod bubble;
mod chain;
mod cut;
mod ddp;
mod dp;
mod mixing;
mod samples;
mod support;
