//! The binary from outside: what it answers, to people and to programs.

mod compare;
mod doctor;
mod evaluate;
mod help;
mod malformed;
mod monitor;
mod photos;
mod plan;
mod profile;
mod reports;
mod signals;
mod support;
mod terminal;
mod train;
