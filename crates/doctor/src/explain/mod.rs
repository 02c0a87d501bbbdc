//! The meaning of low-level error messages of the driver, NVRTC, NCCL and the system, and the remedies.

mod known;

use self::known::{CODES, KNOWN, OUT_OF_MEMORY};

/// The meaning of an error message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The failure and its likely cause: one sentence.
    pub what: &'static str,
    /// The remedy.
    pub hint: &'static str,
}

/// A known failure.
#[derive(Debug)]
struct Known {
    /// The message matches if it contains all texts of one of these lists.
    texts: &'static [&'static [&'static str]],
    meaning: Explanation,
}

impl Known {
    fn matches(&self, message: &str) -> bool {
        contains_all_of_one(self.texts, message)
            || named_code(message).is_some_and(|name| contains_all_of_one(self.texts, name))
    }
}

/// The explanation of a message, if the failure is known. The most specific one wins.
///
/// ```
/// let message = r#"called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")"#;
/// assert!(oomph_doctor::explain(message).is_some_and(|it| it.what.contains("no GPU")));
/// assert_eq!(oomph_doctor::explain("index out of bounds"), None);
/// ```
pub fn explain(message: &str) -> Option<Explanation> {
    KNOWN.iter().find(|known| known.matches(message)).map(|known| known.meaning)
}

/// Whether the message reports that a GPU has no memory left for an allocation.
///
/// The texts are from the sources of cubecl-runtime and cubecl-cuda 0.11.0 (pre-release 3), which Burn is pinned to. Host
/// memory does not count, nor do later messages of other threads (see [`is_after_a_failure`]).
pub fn is_out_of_memory(message: &str) -> bool {
    contains_all_of_one(OUT_OF_MEMORY, message) && !message.contains("cuMemAllocHost")
}

/// Whether the message is Burn's about a tensor whose creation failed earlier, on the thread of the device. The earlier
/// failure is the cause.
pub fn is_after_a_failure(message: &str) -> bool {
    contains_all_of_one(known::AFTER_A_FAILURE, message)
}

/// Whether the message of a panic names a failure of a GPU: Burn panics where it cannot return an error.
pub fn is_of_device(message: &str) -> bool {
    contains_all_of_one(known::OF_DEVICE, message) || is_out_of_memory(message)
}

/// The deepest cause of the first error in the message, on one line, without the backtraces and kernel sources in Burn's
/// errors.
pub fn without_backtrace(message: &str) -> String {
    // Within another error's debug text, line breaks and quotes are escaped.
    let text = message.replace("\\n", "\n").replace("\\\"", "\"").replace(UNWRAPPED, "");
    let details = ["0: ", "No backtrace available", "[Source]"];
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|line| !details.iter().any(|start| line.starts_with(*start)));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with("Backtrace")).collect();
    let deepest = lines.rsplit(|line| *line == "Caused by:").find(|cause| !cause.is_empty());
    deepest.unwrap_or_default().join(" ")
}

/// The beginning of a panic's message, before the error.
const UNWRAPPED: &str = "called `Result::unwrap()` on an `Err` value: ";

fn contains_all_of_one(texts: &[&[&str]], message: &str) -> bool {
    texts.iter().any(|all| all.iter().all(|text| message.contains(text)))
}

/// The name of the code in `the CUDA driver failed with code 100`.
fn named_code(message: &str) -> Option<&'static str> {
    let (_, rest) = message.split_once("CUDA driver failed with code ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    CODES.iter().find(|(code, _)| code.to_string() == rest[..end]).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of cubecl-cuda (`compute/server.rs`, `initialize_memory`), with its backtrace.
    const OUT_OF_DEVICE_MEMORY: &str = "failed to reserve 4294967296 bytes of device memory: out of device memory \
                                    allocating 4294967296 bytes\n   0: cubecl_cuda::compute::storage\n             \
                                    at /x/gpu.rs:188:36\n   1: start_thread\n";

    /// The main thread's message when it reads a tensor of that step.
    const AFTERWARDS: &str = "bytes: host access failed: Read(\"The server is in an invalid state\\nCaused by:\\n  A \
                          launch error happened\\nCaused by:\\n  An io error happened during launch\\nCaused by:\\n  \
                          couldn't find resource for that handle: Memory location was never initialized\\n   0: \
                          cubecl_runtime::memory\\n\")";

    fn driver_error(name: &str, text: &str) -> String {
        format!("called `Result::unwrap()` on an `Err` value: DriverError({name}, \"{text}\")")
    }

    #[track_caller]
    fn check(message: &str, word: &str) {
        let found = explain(message).unwrap_or_else(|| panic!("nothing is known of {message}"));
        assert!(found.what.contains(word), "{message}\n  {}", found.what);
    }

    #[test]
    fn errors_of_the_driver_are_explained_by_their_names() {
        for (name, text, word) in [
            ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "no memory left"),
            ("CUDA_ERROR_NOT_INITIALIZED", "initialization error", "not initialised"),
            ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected", "no GPU"),
            ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal", "has this index"),
            ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered", "outside its tensors"),
            ("CUDA_ERROR_ASSERT", "device-side assert triggered", "device-side assert"),
            ("CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated", "watchdog"),
            ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure", "crashed"),
            ("CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered", "hardware"),
            (
                "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
                "the provided PTX was compiled with …",
                "older than NVRTC",
            ),
            ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed", "NVRTC"),
            ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available …", "another GPU"),
            ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported …", "without a restart"),
            ("CUDA_ERROR_MPS_CONNECTION_FAILED", "MPS client failed to connect", "MPS"),
            ("CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "…", "limit of processes"),
            (
                "CUDA_ERROR_DEVICE_UNAVAILABLE",
                "CUDA-capable device(s) is/are busy or unavailable",
                "exclusive mode",
            ),
            ("CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "<Failure when calling cuGetErrorString()>", "older"),
        ] {
            check(&driver_error(name, text), word);
        }
    }

    #[test]
    fn numbers_of_the_driver_are_explained() {
        // The text of `DeviceError::Driver` in the trainer.
        let message = |code| format!("device `cuda:0`: the CUDA driver failed with code {code}");
        for (code, word) in [
            (2, "no memory left"),
            (3, "not initialised"),
            (46, "exclusive mode"),
            (100, "no GPU"),
            (101, "has this index"),
            (222, "older than NVRTC"),
            (700, "outside its tensors"),
            (803, "without a restart"),
        ] {
            check(&message(code), word);
        }
        assert_eq!(explain(&message(7)), None);
        assert_eq!(explain(&message(1001)), None);
    }

    #[test]
    fn errors_of_libraries_and_the_system_are_explained() {
        for (message, word) in [
            (
                "Unable to dynamically load the \"nvrtc\" shared library - searched for library names: [\"libnvrtc.so\"]",
                "NVRTC",
            ),
            (
                "Unable to dynamically load the \"nccl\" shared library - searched for library names: []",
                "NCCL",
            ),
            ("libcuda.so.1: cannot open shared object file: No such file or directory", "NVIDIA driver"),
            ("libnvrtc.so.13: cannot open shared object file: No such file or directory", "CUDA toolkit"),
            ("libfoo.so.1: cannot open shared object file: No such file or directory", "shared library"),
            ("/lib/libm.so.6: version `GLIBC_2.38' not found (required by oomph)", "C library"),
            (
                "[Compilation Error] \n    nvrtc: error: invalid value for --gpu-architecture (-arch)",
                "older than the card",
            ),
            (
                "[Compilation Error] \n    default_program(1): catastrophic error: cannot open source file \"mma.h\"",
                "header",
            ),
            (
                "\n        CUDA installation not found.\n        Please ensure that CUDA is installed",
                "CUDA_PATH",
            ),
            ("Missing symbol cuCtxCreate_v4: dlsym failed", "older"),
            ("Failed to initialize NVML: Driver/library version mismatch", "without a restart"),
            ("CUBLAS_STATUS_NOT_INITIALIZED", "workspace"),
            ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "workspace"),
            ("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)", "nearly full"),
            ("NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)", "/dev/shm"),
            ("ncclRemoteError: A call failed possibly due to a network error", "another rank"),
            ("NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4000", "two ranks"),
            ("Watchdog caught NCCL collective operation timeout", "too long"),
            ("NCCL all_reduce failed: NcclError", "NCCL"),
            (
                "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"Resource temporarily unavailable\" }",
                "thread",
            ),
            ("cannot start 8 threads: Resource temporarily unavailable (os error 11)", "thread"),
            ("Too many open files (os error 24)", "open files"),
            ("No space left on device (os error 28)", "full"),
            ("memory allocation of 8589934592 bytes failed", "host"),
            (AFTERWARDS, "an earlier operation"),
        ] {
            check(message, word);
        }
        assert_eq!(explain("index out of bounds: the len is 3 but the index is 3"), None);
    }

    #[test]
    fn out_of_memory_on_a_gpu_differs_from_its_consequences_and_from_the_host() {
        for message in [
            OUT_OF_DEVICE_MEMORY,
            "can't allocate buffer of size: 68719476736\nNo backtrace available",
            "memory pool capacity exceeded: failed to reserve 64 bytes, pool is capped at 32 bytes (0 bytes in use)",
            "An out-of-memory error happened during launch\nCaused by:\n  x",
            "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
        ] {
            assert!(is_out_of_memory(message), "{message}");
            check(message, "the GPU has no memory left");
        }
        let other = "failed to reserve 64 bytes of device memory: Unknown error happened during execution: CUDA allocation \
                 error: DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access was encountered\")";
        let pinned = "Unknown error happened during execution: cuMemAllocHost_v2 failed with error code: \
                  CUDA_ERROR_OUT_OF_MEMORY";
        for message in [other, pinned, AFTERWARDS, "memory allocation of 64 bytes failed"] {
            assert!(!is_out_of_memory(message), "{message}");
        }
        check(other, "outside its tensors");
        check(pinned, "pinned");
        assert!(is_after_a_failure(AFTERWARDS));
        assert!(!is_after_a_failure(OUT_OF_DEVICE_MEMORY));
    }

    #[test]
    fn backtraces_are_cut_off() {
        assert_eq!(
            without_backtrace(OUT_OF_DEVICE_MEMORY),
            "failed to reserve 4294967296 bytes of device memory: out of device memory allocating 4294967296 bytes"
        );
        assert_eq!(
            without_backtrace(AFTERWARDS),
            "couldn't find resource for that handle: Memory location was never initialized"
        );
        assert_eq!(without_backtrace("two\n\n  lines"), "two lines");
    }

    #[test]
    fn every_explanation_has_the_same_style() {
        for known in KNOWN {
            let Explanation { what, hint } = known.meaning;
            assert!(!what.ends_with('.') && !hint.ends_with('.'), "{what}; {hint}");
            assert!(!what.is_empty() && !hint.is_empty());
            assert!(known.texts.iter().all(|all| !all.is_empty()), "{what}");
        }
    }

    #[test]
    fn every_explanation_is_in_the_documents() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/doctor.md");
        let page = std::fs::read_to_string(page).unwrap();
        for Known { meaning, .. } in KNOWN {
            let line = format!("| {} | {} |", meaning.what, meaning.hint);
            assert!(page.contains(&line), "docs/reference/doctor.md has no line that ends in\n{line}");
        }
    }

    #[test]
    fn every_name_of_the_table_finds_its_own_entry() {
        for (place, known) in KNOWN.iter().enumerate() {
            for all in known.texts {
                let message = all.join(" … ");
                let first = KNOWN.iter().position(|it| it.matches(&message));
                assert_eq!(first, Some(place), "`{message}` is explained by an earlier entry");
            }
        }
    }
}
