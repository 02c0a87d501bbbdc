//! The table of known failures. The first match wins, so specific entries come first. cudarc writes
//! `DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")`, so entries match its names; other libraries write the
//! sentences of the CUDA runtime.

use super::{Explanation, Known};

/// cubecl's messages when the device has no memory left: the driver refuses a page, a pool is at its cap, or one
/// allocation exceeds the largest page (by default a quarter of the card).
pub(super) const OUT_OF_MEMORY: &[&[&str]] = &[
    &["out of device memory allocating"],
    &["memory pool capacity exceeded"],
    &["can't allocate buffer of size"],
    &["An out-of-memory error happened during launch"],
    &["CUDA_ERROR_OUT_OF_MEMORY"],
    &["CUDA out of memory"],
    &["wgpu error: Out of Memory"],
    // A tensor has one buffer.
    &["is greater than the maximum buffer size"],
];

/// cubecl's messages about memory whose reservation failed earlier.
pub(super) const AFTER_A_FAILURE: &[&[&str]] = &[
    &["couldn't find resource for that handle"],
    &["Can't resolve the stream since it is currently in an error state"],
    &["called `Result::unwrap()` on an `Err` value: RecvError"],
    &["device runner channel disconnected before producing a result"],
];

/// Texts of Burn's panics and errors after a call of the driver failed; those of wgpu are Vulkan's.
pub(super) const OF_DEVICE: &[&[&str]] =
    &[&["DriverError(CUDA_ERROR_"], &["The server is in an invalid state"], &["wgpu error: "]];

const fn known(texts: &'static [&'static [&'static str]], what: &'static str, hint: &'static str) -> Known {
    Known { texts, meaning: Explanation { what, hint } }
}

/// The driver's codes (`CUresult`) with their names, for messages that contain nothing else.
pub(super) const CODES: &[(u16, &str)] = &[
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (710, "CUDA_ERROR_ASSERT"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

pub(super) const KNOWN: &[Known] = &[
    // Memory.
    known(
        &[&["cuMemAllocHost", "CUDA_ERROR_OUT_OF_MEMORY"]],
        "the host has no pinned memory left for copies to the GPU",
        "free host memory, or lower `train.batch` or `data.prefetch`; `oomph doctor` shows free memory",
    ),
    known(
        OUT_OF_MEMORY,
        "the GPU has no memory left: the step needs more than is free, or another process holds memory",
        "lower `memory.micro_batch`, which keeps the batch; `oomph plan` shows which plans fit, `oomph monitor` which \
         process holds memory",
    ),
    known(
        &[&["CUBLAS_STATUS_ALLOC_FAILED"], &["CUDNN_STATUS_ALLOC_FAILED"]],
        "cuBLAS or cuDNN could not allocate its workspace: the GPU is nearly full",
        "lower `memory.micro_batch`; `oomph monitor` shows which processes hold GPU memory",
    ),
    known(
        &[&["CUBLAS_STATUS_NOT_INITIALIZED"], &["CUDNN_STATUS_NOT_INITIALIZED"]],
        "cuBLAS or cuDNN could not start: usually the GPU has no memory left for its workspace; else an earlier failure \
         broke the context, or library and driver have different CUDA versions",
        "oomph uses neither library, so a stage of yours does; look for an earlier error, lower `memory.micro_batch`, \
         and compare the library's CUDA version with `oomph doctor`",
    ),
    known(
        &[&["memory allocation of", "bytes failed"], &["Cannot allocate memory (os error 12)"]],
        "the host is out of memory: the machine's memory, the cgroup limit of a container or job, or `ulimit -v` is \
         used up",
        "lower `train.batch`, `data.workers` or `data.prefetch`; `oomph doctor` shows the limits",
    ),
    // A device that is not there, or not usable.
    known(
        &[&["CUDA_ERROR_DEVICE_UNAVAILABLE"], &["CUDA-capable device(s) is/are busy or unavailable"]],
        "the GPU is not available: another process holds it in exclusive mode, or its compute mode is prohibited",
        "`oomph monitor` shows its processes; `nvidia-smi -c DEFAULT` (as root) lets several processes share it",
    ),
    known(
        &[&["CUDA_ERROR_NO_DEVICE"], &["no CUDA-capable device is detected"]],
        "the driver shows no GPU to this process: CUDA_VISIBLE_DEVICES hides all GPUs, or the container has none",
        "`oomph doctor --devices cuda:0` shows which; a container needs `--gpus all`",
    ),
    known(
        &[&["CUDA_ERROR_INVALID_DEVICE"], &["invalid device ordinal"]],
        "no GPU has this index: indices begin at 0, and CUDA_VISIBLE_DEVICES hides and renumbers GPUs",
        "`oomph devices` lists the devices",
    ),
    known(
        &[&["CUDA_ERROR_NOT_INITIALIZED"]],
        "CUDA is not initialised in this process: the process forked after CUDA started, or the driver failed to start",
        "`oomph doctor --devices cuda:0` checks the driver",
    ),
    known(
        &[&["CUDA_ERROR_DEINITIALIZED"]],
        "the driver was shutting down: a thread used the GPU while the program ended",
        "look for the earlier error that ended the program",
    ),
    known(
        &[
            &["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"],
            &["Driver/library version mismatch"],
            &["driver/library version mismatch"],
        ],
        "the NVIDIA kernel module and the driver's libraries have different versions, as after an update without a \
         restart",
        "restart the machine; in a container, restart the container",
    ),
    known(
        &[
            &["CUDA_ERROR_INSUFFICIENT_DRIVER"],
            &["CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"],
            &["CUDA driver version is insufficient"],
            &["Missing symbol cu"],
        ],
        "the NVIDIA driver is older than this program requires",
        "update the driver; `oomph doctor --devices cuda:0` shows its version",
    ),
    known(
        &[&["CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"]],
        "CUDA's forward-compatibility libraries are loaded, but this GPU does not support them",
        "remove the folder `compat` from LD_LIBRARY_PATH, or update the driver",
    ),
    known(
        &[&["CUDA_ERROR_STUB_LIBRARY"]],
        "the `libcuda.so` that was found is a linker stub, not a driver",
        "remove folders called `stubs` from LD_LIBRARY_PATH",
    ),
    known(
        &[&["CUDA_ERROR_SYSTEM_NOT_READY"]],
        "the GPUs are not ready: machines with NVSwitch need the fabric manager",
        "start `nvidia-fabricmanager` in the driver's version",
    ),
    known(
        &[&["CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"], &["CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"]],
        "the MPS server of this GPU has reached its limit of processes",
        "end one of the processes; `oomph monitor` shows them",
    ),
    known(
        &[&["CUDA_ERROR_MPS_"]],
        "MPS shares this GPU, and its server does not answer or ended with another process",
        "restart the MPS server (`quit` to `nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`), or unset \
         CUDA_MPS_PIPE_DIRECTORY",
    ),
    known(
        &[&["CUDA_ERROR_OPERATING_SYSTEM"]],
        "the system refused a call of the driver: `/dev/nvidia*` lacks permissions, or a limit such as `ulimit -v` \
         applies",
        "`oomph doctor --devices cuda:0` checks both",
    ),
    known(
        &[&["GPU is lost"], &["GPU_IS_LOST"], &["has fallen off the bus"]],
        "the driver lost the GPU: power, heat or a hardware fault took it off the bus",
        "`dmesg` has a line with `Xid 79`; restart the machine, and have the card inspected if it happens again",
    ),
    // Kernels that went wrong. The context is broken after these: nothing on the GPU works in this process any more.
    known(
        &[&["CUDA_ERROR_ILLEGAL_ADDRESS"], &["an illegal memory access was encountered"]],
        "a kernel accessed memory outside its tensors, so this process can no longer use the GPU: an index is out of \
         range in a kernel of yours, or Burn has a bug",
        "run with `--devices cpu`, which checks indices, or under `compute-sanitizer`",
    ),
    known(
        &[&["CUDA_ERROR_ASSERT"], &["device-side assert triggered"]],
        "a check in a kernel failed (a device-side assert), usually of an index: a class that the model does not have, \
         or a token beyond the vocabulary",
        "run with `--devices cpu`; its message names the value",
    ),
    known(
        &[&["CUDA_ERROR_MISALIGNED_ADDRESS"], &["misaligned address"]],
        "a kernel read from an address that is not aligned to its data type: a bug in a kernel",
        "run with `--devices cpu`; report the bug with the GPU's name and the versions that `oomph doctor` shows",
    ),
    known(
        &[&["CUDA_ERROR_ILLEGAL_INSTRUCTION"]],
        "the GPU does not support an instruction of a kernel: the kernel was compiled for another GPU, or the hardware \
         is faulty",
        "report it with the GPU's name and the versions that `oomph doctor` shows",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_TIMEOUT"], &["the launch timed out and was terminated"]],
        "a kernel exceeded the time limit of the display's watchdog: this GPU also drives a desktop",
        "use a GPU without a display, or lower `memory.micro_batch`, which makes kernels shorter",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"], &["Too many resources were requested during launch"]],
        "a kernel needs more registers, shared memory or threads than this GPU has",
        "report it with the GPU's name and the model: Burn chose a kernel that does not fit",
    ),
    known(
        &[&["CUDA_ERROR_LAUNCH_FAILED"], &["unspecified launch failure"]],
        "a kernel crashed on the GPU: it accessed memory outside its tensors, or the hardware failed",
        "run with `--devices cpu` or under `compute-sanitizer`; lines with `Xid` in `dmesg` mean a hardware fault",
    ),
    known(
        &[&["CUDA_ERROR_ECC_UNCORRECTABLE"], &["uncorrectable ECC error"]],
        "the GPU's memory has an uncorrectable bit error: a hardware fault",
        "restart the machine to retire the memory page; have the card replaced if it happens again",
    ),
    known(
        &[&["CUDA_ERROR_NVLINK_UNCORRECTABLE"]],
        "the link between GPUs (NVLink) failed: a hardware fault",
        "restart the machine; `nvidia-smi nvlink -e` counts errors",
    ),
    known(
        &[&["CUDA_ERROR_UNKNOWN"]],
        "the driver failed for a reason that it does not name: often it lost the GPU, or an earlier kernel broke it",
        "`dmesg` has lines with `Xid` if the GPU failed; resume from the last checkpoint, and restart the machine if it \
         happens again",
    ),
    // Compiling kernels.
    known(
        &[&["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"], &["Unsupported .version"]],
        "the NVIDIA driver is older than NVRTC, and cannot read the kernels that NVRTC compiles",
        "update the driver, or put an older `libnvrtc.so` first in LD_LIBRARY_PATH; `oomph doctor --devices cuda:0` \
         shows both versions",
    ),
    known(
        &[&["CUDA_ERROR_NO_BINARY_FOR_GPU"], &["no kernel image is available for execution"]],
        "a kernel was compiled for another GPU, as in a cache from another machine",
        "remove Burn's kernel cache; `oomph doctor --devices cuda:0` compares NVRTC and GPU",
    ),
    known(
        &[&["CUDA_ERROR_INVALID_PTX"], &["PTX JIT compilation failed"], &["a PTX JIT compilation failed"]],
        "the driver cannot compile NVRTC's output: NVRTC is newer than the driver, or targets another GPU",
        "update the driver; `oomph doctor --devices cuda:0` shows both versions",
    ),
    known(
        &[&["CUDA_ERROR_JIT_COMPILER_NOT_FOUND"]],
        "the driver's own compiler (`libnvidia-ptxjitcompiler.so.1`) is missing: the container lacks the driver's \
         compute libraries",
        "give the container the capability `compute`: NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    known(
        &[&["invalid value for --gpu-architecture"], &["NVRTC_ERROR_INVALID_OPTION"]],
        "NVRTC does not support this GPU: NVRTC is older than the card",
        "put the `libnvrtc.so` of a newer CUDA toolkit first in LD_LIBRARY_PATH",
    ),
    known(
        &[&["CUDA installation not found"]],
        "the CUDA toolkit was not found, and kernels need its headers: Burn searches CUDA_PATH, `/usr/local/cuda`, \
         `/opt/cuda` and `/usr/bin/nvcc`",
        "install the toolkit, or set CUDA_PATH to the folder that contains `include/cuda_fp16.h`",
    ),
    known(
        &[&["cannot open source file"], &["could not open source file"]],
        "a header of the CUDA toolkit is missing, and a kernel includes it: CUDA_PATH names an incomplete toolkit",
        "set CUDA_PATH to a folder that contains `include/cuda_fp16.h`, or install the toolkit's development files",
    ),
    known(
        &[&["NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"], &["failed to open libnvrtc-builtins"]],
        "NVRTC did not find its second library, `libnvrtc-builtins.so`, in the same version",
        "add the folder that contains both libraries to LD_LIBRARY_PATH",
    ),
    known(
        &[&["NVRTC_ERROR_OUT_OF_MEMORY"]],
        "NVRTC ran out of host memory while compiling a kernel",
        "free host memory; `oomph doctor` shows free memory",
    ),
    // Libraries.
    known(
        &[
            &["\"nvrtc\" shared library"],
            &["libnvrtc", "cannot open shared object file"],
            &["libnvrtc", "cannot be loaded"],
        ],
        "NVRTC, the compiler of kernels, was not found: the CUDA toolkit contains it, the driver does not",
        "install the CUDA toolkit, or add the folder of `libnvrtc.so` to LD_LIBRARY_PATH",
    ),
    known(
        &[&["\"nccl\" shared library"], &["libnccl", "cannot open shared object file"]],
        "NCCL, which exchanges gradients between GPUs, was not found under the name `libnccl.so`",
        "install NCCL with its development files, or link `libnccl.so` to `libnccl.so.2` in a folder of \
         LD_LIBRARY_PATH",
    ),
    known(
        &[
            &["\"cuda\" shared library"],
            &["libcuda.so", "cannot open shared object file"],
            &["libnvidia-ml.so", "cannot open shared object file"],
        ],
        "the libraries of the NVIDIA driver were not found: the driver is not installed, or the container has no \
         access to it",
        "install the driver, or start the container with `--gpus all`; `--devices cpu` needs no driver",
    ),
    known(
        &[&["version `GLIBC_", "not found"], &["version `GLIBCXX_", "not found"]],
        "the system's C library is older than this program or one of its libraries requires",
        "build the program on this system, or on one at least as old",
    ),
    known(
        &[&["cannot open shared object file"]],
        "a shared library was not found",
        "install the package that contains it, or add its folder to LD_LIBRARY_PATH",
    ),
    // Several GPUs.
    known(
        &[&["Duplicate GPU detected"], &["ncclInvalidUsage"], &["NCCL", "invalid usage"]],
        "NCCL does not allow this use, usually because two ranks share one GPU",
        "give each rank a GPU of its own in `--devices`",
    ),
    known(
        &[&["NCCL", "timed out"], &["NCCL", "timeout"], &["NCCL", "Timeout"]],
        "a rank waited too long for the others: one of them ended, computes something else, or is much slower",
        "look for the first error of any rank; NCCL_DEBUG=INFO shows where each rank waits",
    ),
    known(
        &[&["ncclRemoteError"], &["NCCL", "remote process exited"], &["NCCL", "remote error"]],
        "another rank ended, or the network connection to it broke",
        "look for the first error of any rank",
    ),
    known(
        &[&["ncclSystemError"], &["NCCL", "unhandled system error"], &["NCCL", "/dev/shm"]],
        "a system call failed in NCCL, usually because `/dev/shm` is full: a container gets 64 MiB",
        "start the container with `--shm-size=1g` or more, or `--ipc=host`; NCCL_DEBUG=WARN names the system call",
    ),
    known(
        &[&["ncclUnhandledCudaError"], &["NCCL", "unhandled cuda error"]],
        "CUDA failed in NCCL: no memory is left for its buffers, or the GPUs cannot reach each other",
        "NCCL_DEBUG=WARN names CUDA's error; NCCL_P2P_DISABLE=1 shows whether direct access between GPUs is the cause",
    ),
    known(
        &[&["NcclError"], &["NCCL", "failed"]],
        "NCCL, which exchanges gradients between GPUs, failed",
        "NCCL_DEBUG=WARN shows the cause",
    ),
    // The system.
    known(
        &[
            &["Resource temporarily unavailable", "thread"],
            &["failed to spawn thread"],
            &["WouldBlock", "thread"],
            // The panic of rayon whose threads could not be started.
            &["The global thread pool has not been initialized"],
        ],
        "the system cannot start another thread: the limit of processes (`ulimit -u`) or of the container (`pids.max`) \
         is reached",
        "raise the limit, end other processes, or lower `data.workers` and `device.threads`",
    ),
    known(
        &[&["Too many open files"]],
        "this process has reached its limit of open files",
        "raise the limit: `ulimit -n 4096`",
    ),
    known(
        &[&["No space left on device"], &["StorageFull"]],
        "the disk is full, or cannot hold another file",
        "free space, or write to another disk with `run.directory`; `oomph doctor` shows free space",
    ),
    known(
        &[&["Disk quota exceeded"], &["QuotaExceeded"]],
        "this user's disk quota is used up",
        "free space, or write to another disk with `run.directory`",
    ),
    known(
        &[&["File too large (os error 27)"]],
        "a file would exceed the largest size: that of this process (`ulimit -f`) or of the file system",
        "raise the limit: `ulimit -f unlimited`; `oomph doctor` shows it",
    ),
    // What only follows from another failure stands last.
    known(
        AFTER_A_FAILURE,
        "an earlier operation on the GPU failed, and this one depends on it; usually an allocation found no memory",
        "look for the first error; lower `memory.micro_batch`, and run `oomph doctor --devices cuda:0`",
    ),
];
