//! The binary from outside: its output for people and for programs.

mod children;
mod compare;
mod doctor;
mod evaluate;
mod find_batch;
mod find_batch_devices;
mod help;
mod launchers;
#[path = "../machine/limits.rs"]
mod limits;
mod malformed;
mod monitor;
mod other_data;
mod out_of_memory;
mod parallel;
mod photos;
mod plan;
mod plan_devices;
mod predict;
mod process_limits;
mod profile;
mod profile_devices;
mod reports;
mod runs;
mod signals;
mod support;
mod tensorboard;
mod terminal;
mod text;
mod train;
mod verify_gpu;
mod weights;
