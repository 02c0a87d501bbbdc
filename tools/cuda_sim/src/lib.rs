//! A CUDA driver simulated on the processor.
//!
//! The shared library stands in for `libcuda.so.1`, `libnvidia-ml.so.1` and `libnccl.so.2`. Programs that load them by
//! name, as Burn's CUDA backend does, find cards of a chosen model and memory. Everything that the driver decides is
//! decided here: which allocations succeed, which launches are legal, what an error looks like. NVIDIA's own run-time
//! compiler (NVRTC) needs no GPU and stays in use; linked as `libnvrtc.so` too, the library passes calls on to it and
//! counts what it compiles. `cargo xtask gpu` sets this up and starts a command on it.
//!
//! Memory of a card is host memory that is committed when touched. Copies are real. Launches are counted and checked
//! against the card's limits. Kernels run on the processor (`compute`), or not at all (`count`): then their results are
//! whatever memory held, which is zeros while it is fresh. Work is done at the call, so streams and events have nothing
//! to wait for.
//!
//! # Settings
//!
//! Environment variables, read at the first call:
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `CUDA_SIM_CARDS` | models, as in `H100`, `T4,A100` or `4xRTX 4090`: see [`card`] | `H100` |
//! | `CUDA_SIM_MEMORY` | memory of each card, as in `8GiB` | that of the model |
//! | `CUDA_SIM_MODE` | `compute` runs kernels, `sectors` records the memory that they touch too, `count` only counts them | `compute` |
//! | `CUDA_SIM_FAULTS` | faults to inject: see [`faults`] | none |
//! | `CUDA_SIM_REPORT` | a file that receives the counts of [`report`] when the process ends | none |
//! | `CUDA_SIM_LOG` | a file that receives a line for each allocation, copy and launch | none |
//! | `CUDA_SIM_KERNELS` | a folder that receives the PTX of each module, and kernels that do not compile: see [`kernels`] | none |
//! | `CUDA_SIM_NVRTC` | the compiler behind the watch on it; only where the library is linked as `libnvrtc.so` | none |
//!
//! Every launch is counted with the bytes of the buffers that its kernel reads and writes: see [`traffic`].
//!
//! # What is not simulated
//!
//! Time: a launch takes no time. Asynchronous work: a copy is done when the call returns. Registers: how many a kernel
//! takes is decided by `ptxas`, which does not run; [`ptxas`] reads
//! its answers. Other processes: each process has cards of its own.

pub mod card;
mod counters;
mod device;
mod driver;
mod failure;
pub mod faults;
pub mod kernels;
mod log;
mod machine;
mod memory;
mod nccl;
mod nvml;
mod nvrtc;
mod pointer;
pub mod ptx;
pub mod ptxas;
pub mod report;
mod settings;
pub mod traffic;
