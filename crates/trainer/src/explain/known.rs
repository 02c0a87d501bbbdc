//! The table of known failures. Adding one is adding an entry; the first that matches counts, so what is more specific
//! stands first. cudarc writes `DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")`, so names are looked for, and
//! the sentences of the CUDA runtime, which other libraries write.

use super::{Explanation, Known};

/// What cubecl says where the device has no memory left: a page that the driver refused, a pool at its cap, and one
/// allocation above the largest page, which by default is a quarter of the card.
pub(super) const OUT_OF_MEMORY: &[&[&str]] = &[
    &["out of device memory allocating"],
    &["memory pool capacity exceeded"],
    &["can't allocate buffer of size"],
    &["An out-of-memory error happened during launch"],
    &["CUDA_ERROR_OUT_OF_MEMORY"],
    &["CUDA out of memory"],
];

/// What cubecl says of memory that was never reserved, because the reservation failed.
pub(super) const AFTER_A_FAILURE: &[&[&str]] = &[
    &["couldn't find resource for that handle"],
    &["Can't resolve the stream since it is currently in an error state"],
    &["called `Result::unwrap()` on an `Err` value: RecvError"],
    &["device runner channel disconnected before producing a result"],
];

const fn known(
    texts: &'static [&'static [&'static str]],
    code: Option<u16>,
    what: &'static str,
    hint: &'static str,
) -> Known {
    Known { texts, code, meaning: Explanation { what, hint } }
}

pub(super) const KNOWN: &[Known] = &[
    // Memory.
    known(
        &[&["cuMemAllocHost", "CUDA_ERROR_OUT_OF_MEMORY"]],
        None,
        "the host has no memory left that could be pinned for copies to the GPU",
        "free host memory, or lower `train.batch` or `data.prefetch`; `oomph doctor` shows what is left",
    ),
    known(
        OUT_OF_MEMORY,
        Some(2),
        "the GPU has no memory left: the step needs more than is free, or another process holds some of it",
        "lower `memory.micro_batch`, which keeps the batch; `oomph plan` shows what fits, `oomph monitor` who holds \
         what",
    ),
    known(
        &[&["CUBLAS_STATUS_ALLOC_FAILED"], &["CUDNN_STATUS_ALLOC_FAILED"]],
        None,
        "cuBLAS or cuDNN got no memory for its workspace: the GPU is nearly full",
        "lower `memory.micro_batch`; `oomph monitor` shows who holds the GPU's memory",
    ),
    known(
        &[&["CUBLAS_STATUS_NOT_INITIALIZED"], &["CUDNN_STATUS_NOT_INITIALIZED"]],
        None,
        "cuBLAS or cuDNN could not start: most often the GPU has no memory left for its workspace, else an earlier \
         failure broke the context, or the library is of another CUDA version than the driver",
        "oomph uses neither, so a stage of your own does: look for an earlier error, lower `memory.micro_batch`, and \
         compare its CUDA version with `oomph doctor`",
    ),
    known(
        &[&["memory allocation of", "bytes failed"], &["Cannot allocate memory (os error 12)"]],
        None,
        "the host has no memory left: of the machine, of the cgroup of a container or job, or of `ulimit -v`",
        "lower `train.batch`, `data.workers` or `data.prefetch`; `oomph doctor` shows the limits",
    ),
    // A device that is not there, or not usable.
    known(
        &[&["CUDA_ERROR_DEVICE_UNAVAILABLE"], &["CUDA-capable device(s) is/are busy or unavailable"]],
        Some(46),
        "the GPU is taken: it is in exclusive mode and another process has it, or it lets nobody compute",
        "`oomph monitor` shows who is on it; `nvidia-smi -c DEFAULT` (as root) lets several processes share it",
    ),
    known(
        &[&["CUDA_ERROR_NO_DEVICE"], &["no CUDA-capable device is detected"]],
        Some(100),
        "the driver shows no GPU to this process: CUDA_VISIBLE_DEVICES hides them, or the container was given none",
        "`oomph doctor --devices cuda:0` says which; a container needs `--gpus all`",
    ),
    known(
        &[&["CUDA_ERROR_INVALID_DEVICE"], &["invalid device ordinal"]],
        Some(101),
        "there is no GPU of that index: CUDA_VISIBLE_DEVICES renumbers and hides, and indices begin at 0",
        "`oomph devices` lists what there is",
    ),
    known(
        &[&["CUDA_ERROR_NOT_INITIALIZED"]],
        Some(3),
        "CUDA was not initialised in this process: it forked after CUDA began, or the driver failed to start before",
        "`oomph doctor --devices cuda:0` says what is wrong with the driver",
    ),
    known(
        &[&["CUDA_ERROR_DEINITIALIZED"]],
        Some(4),
        "the driver was being shut down: a thread still used the GPU while the program ended",
        "look for an earlier error that ended the program",
    ),
    known(
        &[
            &["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"],
            &["Driver/library version mismatch"],
            &["driver/library version mismatch"],
        ],
        Some(803),
        "the kernel runs another version of the NVIDIA driver than its libraries are of, as after an update without a \
         restart",
        "restart the machine; of a container, restart the container",
    ),
    known(
        &[
            &["CUDA_ERROR_INSUFFICIENT_DRIVER"],
            &["CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"],
            &["CUDA driver version is insufficient"],
            &["Missing symbol cu"],
        ],
        Some(36),
        "the NVIDIA driver is older than what this program asks of it",
        "update the driver; `oomph doctor --devices cuda:0` shows its version",
    ),
    known(
        &[&["CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"]],
        Some(804),
        "CUDA's forward-compatibility libraries were loaded, and this GPU does not support them",
        "take the folder `compat` out of LD_LIBRARY_PATH, or update the driver",
    ),
    known(
        &[&["CUDA_ERROR_STUB_LIBRARY"]],
        Some(34),
        "the `libcuda.so` that was found is a stub for linking and drives nothing",
        "take folders called `stubs` out of LD_LIBRARY_PATH",
    ),
    known(
        &[&["CUDA_ERROR_SYSTEM_NOT_READY"]],
        Some(802),
        "the GPUs are not ready yet: machines with NVSwitch need the fabric manager",
        "start `nvidia-fabricmanager`, of the driver's version",
    ),
    known(
        &[&["CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"], &["CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"]],
        None,
        "the MPS server of this GPU serves as many processes as it can",
        "end one of them; `oomph monitor` shows them",
    ),
    known(
        &[&["CUDA_ERROR_MPS_"]],
        None,
        "the GPU is shared by MPS, whose server does not answer or ended with another of its processes",
        "restart it (`quit` to `nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`), or unset \
         CUDA_MPS_PIPE_DIRECTORY",
    ),
    known(
        &[&["CUDA_ERROR_OPERATING_SYSTEM"]],
        Some(304),
        "the system refused the driver something: files `/dev/nvidia*` without permission, or a limit such as \
         `ulimit -v`",
        "`oomph doctor --devices cuda:0` looks at both",
    ),
    known(
        &[&["GPU is lost"], &["GPU_IS_LOST"], &["has fallen off the bus"]],
        None,
        "the driver lost the GPU: power, heat or a fault of the hardware took it off the bus",
        "`dmesg` has a line with `Xid 79`; restart the machine, and have the card looked at where it comes again",
    ),
    // Kernels that went wrong. The context is broken after these: nothing on the GPU works in this process any more.
    known(
        &[&["CUDA_ERROR_ILLEGAL_ADDRESS"], &["an illegal memory access was encountered"]],
        Some(700),
        "a kernel read or wrote outside of its tensors, and the GPU cannot be used by this process any more: an index \
         out of range in a kernel of your own, or a bug in Burn",
        "run it with `--devices cpu`, which checks indices, or under `compute-sanitizer`",
    ),
    known(
        &[&["CUDA_ERROR_ASSERT"], &["device-side assert triggered"]],
        Some(710),
        "a check within a kernel failed (a device-side assert), most often of an index: a class that the model does not \
         have, a token beyond the vocabulary",
        "run it with `--devices cpu`, where the message names the value",
    ),
    known(
        &[&["CUDA_ERROR_MISALIGNED_ADDRESS"], &["misaligned address"]],
        Some(716),
        "a kernel read at an address that is no multiple of its type's size: a bug in a kernel",
        "run it with `--devices cpu`; report it with the GPU's name and the versions of `oomph doctor`",
    ),
    known(
        &[&["CUDA_ERROR_ILLEGAL_INSTRUCTION"]],
        Some(715),
        "the GPU met an instruction that it does not have: a kernel compiled for another GPU, or a fault of the hardware",
        "report it with the GPU's name and the versions of `oomph doctor`",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_TIMEOUT"], &["the launch timed out and was terminated"]],
        Some(702),
        "a kernel ran longer than the display's watchdog allows: the GPU also draws a desktop",
        "use a GPU without a display, or a smaller `memory.micro_batch`, which makes kernels shorter",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"], &["Too many resources were requested during launch"]],
        Some(701),
        "a kernel needs more registers, shared memory or threads than this GPU has",
        "report it with the GPU's name and the model: Burn chose a kernel that does not fit",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_FAILED"], &["unspecified launch failure"]],
        Some(719),
        "a kernel crashed on the GPU: it went outside of its memory, or the hardware failed",
        "run it with `--devices cpu` or under `compute-sanitizer`; lines with `Xid` in `dmesg` tell a fault of the \
         hardware",
    ),
    known(
        &[&["CUDA_ERROR_ECC_UNCORRECTABLE"], &["uncorrectable ECC error"]],
        Some(214),
        "the GPU's memory returned wrong bits that could not be corrected: a fault of the hardware",
        "restart the machine, so that the page is taken out of use; have the card replaced where it comes again",
    ),
    known(
        &[&["CUDA_ERROR_NVLINK_UNCORRECTABLE"]],
        Some(220),
        "the link between GPUs (NVLink) failed: a fault of the hardware",
        "restart the machine; `nvidia-smi nvlink -e` counts errors",
    ),
    // Compiling kernels.
    known(
        &[&["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"], &["Unsupported .version"]],
        Some(222),
        "the NVIDIA driver is older than the NVRTC that compiled the kernel, and cannot read what that writes",
        "update the driver, or put an older `libnvrtc.so` first in LD_LIBRARY_PATH; `oomph doctor --devices cuda:0` \
         shows both versions",
    ),
    known(
        &[&["CUDA_ERROR_NO_BINARY_FOR_GPU"], &["no kernel image is available for execution"]],
        Some(209),
        "a kernel was compiled for another GPU than this one, as from a cache of another machine",
        "remove Burn's cache of kernels; `oomph doctor --devices cuda:0` compares NVRTC and GPU",
    ),
    known(
        &[&["CUDA_ERROR_INVALID_PTX"], &["PTX JIT compilation failed"], &["a PTX JIT compilation failed"]],
        Some(218),
        "the driver cannot compile what NVRTC wrote: NVRTC is newer than the driver, or for another GPU",
        "update the driver; `oomph doctor --devices cuda:0` shows both versions",
    ),
    known(
        &[&["CUDA_ERROR_JIT_COMPILER_NOT_FOUND"]],
        Some(221),
        "the driver's own compiler (`libnvidia-ptxjitcompiler.so.1`) is missing: the container gets no compute part of \
         the driver",
        "give the container the capability `compute`: NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    known(
        &[&["invalid value for --gpu-architecture"], &["NVRTC_ERROR_INVALID_OPTION"]],
        None,
        "NVRTC does not know this GPU: it is older than the card",
        "put the `libnvrtc.so` of a newer CUDA toolkit first in LD_LIBRARY_PATH",
    ),
    known(
        &[&["CUDA installation not found"]],
        None,
        "the CUDA toolkit was not found, whose headers kernels are compiled with: Burn looks at CUDA_PATH, \
         `/usr/local/cuda`, `/opt/cuda` and `/usr/bin/nvcc`",
        "install the toolkit, or set CUDA_PATH to the folder that has `include/cuda_fp16.h`",
    ),
    known(
        &[&["cannot open source file"], &["could not open source file"]],
        None,
        "a header of the CUDA toolkit is missing, which a kernel includes: CUDA_PATH names an incomplete toolkit",
        "set CUDA_PATH to a folder that has `include/cuda_fp16.h`, or install the toolkit's development files",
    ),
    known(
        &[&["NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"], &["failed to open libnvrtc-builtins"]],
        None,
        "NVRTC did not find its second library, `libnvrtc-builtins.so`, of the same version",
        "put the folder that has both into LD_LIBRARY_PATH",
    ),
    known(
        &[&["NVRTC_ERROR_OUT_OF_MEMORY"]],
        None,
        "NVRTC got no host memory to compile a kernel",
        "free host memory; `oomph doctor` shows what is left",
    ),
    // Libraries.
    known(
        &[
            &["\"nvrtc\" shared library"],
            &["libnvrtc", "cannot open shared object file"],
            &["libnvrtc", "cannot be loaded"],
        ],
        None,
        "NVRTC, which compiles kernels, was not found: it comes with the CUDA toolkit and not with the driver",
        "install the CUDA toolkit, or put the folder of `libnvrtc.so` into LD_LIBRARY_PATH",
    ),
    known(
        &[&["\"nccl\" shared library"], &["libnccl", "cannot open shared object file"]],
        None,
        "NCCL, through which several GPUs exchange gradients, was not found under the name `libnccl.so`",
        "install NCCL with its development files, or link `libnccl.so` to `libnccl.so.2` in a folder of \
         LD_LIBRARY_PATH",
    ),
    known(
        &[
            &["\"cuda\" shared library"],
            &["libcuda.so", "cannot open shared object file"],
            &["libnvidia-ml.so", "cannot open shared object file"],
        ],
        None,
        "the libraries of the NVIDIA driver were not found: it is not installed, or the container does not get it",
        "install the driver, or start the container with `--gpus all`; `--devices cpu` works without",
    ),
    known(
        &[&["version `GLIBC_", "not found"], &["version `GLIBCXX_", "not found"]],
        None,
        "the system's C library is older than the one that this program or a library was built with",
        "build it on this system, or on one as old",
    ),
    known(
        &[&["cannot open shared object file"]],
        None,
        "a shared library was not found",
        "install the package that has it, or put its folder into LD_LIBRARY_PATH",
    ),
    // Several GPUs.
    known(
        &[&["Duplicate GPU detected"], &["ncclInvalidUsage"], &["NCCL", "invalid usage"]],
        None,
        "NCCL was used in a way that it forbids, most often by two ranks on one GPU",
        "give each rank a GPU of its own in `--devices`",
    ),
    known(
        &[&["NCCL", "timed out"], &["NCCL", "timeout"], &["NCCL", "Timeout"]],
        None,
        "a rank waited for the others in vain: one of them ended, or computes something else, or is much slower",
        "look for the first error of any rank; NCCL_DEBUG=INFO shows where each one waits",
    ),
    known(
        &[&["ncclRemoteError"], &["NCCL", "remote process exited"], &["NCCL", "remote error"]],
        None,
        "another rank ended, or the network to it broke",
        "look for the first error of any rank",
    ),
    known(
        &[&["ncclSystemError"], &["NCCL", "unhandled system error"], &["NCCL", "/dev/shm"]],
        None,
        "a call of the system failed within NCCL, most often because `/dev/shm` is full: a container gets 64 MiB",
        "start the container with `--shm-size=1g` or more, or `--ipc=host`; NCCL_DEBUG=WARN says which call it was",
    ),
    known(
        &[&["ncclUnhandledCudaError"], &["NCCL", "unhandled cuda error"]],
        None,
        "CUDA failed within NCCL: no memory left for its buffers, or GPUs that do not reach each other",
        "NCCL_DEBUG=WARN names CUDA's error; NCCL_P2P_DISABLE=1 shows whether it is the direct way between GPUs",
    ),
    known(
        &[&["NcclError"], &["NCCL", "failed"]],
        None,
        "NCCL, through which GPUs exchange gradients, failed",
        "NCCL_DEBUG=WARN says why",
    ),
    // The system.
    known(
        &[
            &["Resource temporarily unavailable", "thread"],
            &["failed to spawn thread"],
            &["WouldBlock", "thread"],
        ],
        None,
        "no further thread may be started: the limit of processes (`ulimit -u`) or of the container (`pids.max`) is \
         reached",
        "raise the limit, end other processes, or lower `data.workers` and `device.threads`",
    ),
    known(
        &[&["Too many open files"]],
        None,
        "this process has as many files open as it may",
        "raise the limit: `ulimit -n 4096`",
    ),
    known(
        &[&["No space left on device"], &["StorageFull"]],
        None,
        "the disk is full, or has no room for more files",
        "free some, or write elsewhere with `run.directory`; `oomph doctor` shows what is left",
    ),
    known(
        &[&["Disk quota exceeded"], &["QuotaExceeded"]],
        None,
        "this user's quota of the disk is used up",
        "free some, or write elsewhere with `run.directory`",
    ),
    // What only follows from another failure stands last.
    known(
        AFTER_A_FAILURE,
        None,
        "the GPU failed at something before, and what depends on it cannot be had: most often an allocation found no \
         memory left",
        "look for the first error; lower `memory.micro_batch`, and see `oomph doctor --devices cuda:0`",
    ),
];
