//! The binary from outside: what it answers, to people and to programs.

mod evaluate;
mod help;
mod malformed;
mod monitor;
mod photos;
mod reports;
mod signals;
mod support;
mod terminal;
mod train;
