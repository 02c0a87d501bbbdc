//! The binary from outside: what it answers, to people and to programs.

mod children;
mod compare;
mod doctor;
mod evaluate;
mod find_batch;
mod help;
mod malformed;
mod monitor;
mod out_of_memory;
mod photos;
mod plan;
mod profile;
mod reports;
mod signals;
mod support;
mod terminal;
mod train;
mod weights;
