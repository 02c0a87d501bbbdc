//! The driver's errors, by their numbers in `cuda.h`.

/// What a call of the driver answers when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Failure {
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    InvalidDevice = 101,
    InvalidContext = 201,
    NoBinaryForGpu = 209,
    InvalidPtx = 218,
    UnsupportedPtxVersion = 222,
    InvalidHandle = 400,
    NotFound = 500,
    IllegalAddress = 700,
    LaunchFailed = 719,
    NotSupported = 801,
    Unknown = 999,
}

/// The number of success.
pub(crate) const SUCCESS: i32 = 0;

/// All failures with the names and texts that the driver gives.
const TEXTS: [(Failure, &str, &str); 14] = [
    (Failure::InvalidValue, "CUDA_ERROR_INVALID_VALUE\0", "invalid argument\0"),
    (Failure::OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY\0", "out of memory\0"),
    (Failure::NotInitialized, "CUDA_ERROR_NOT_INITIALIZED\0", "initialization error\0"),
    (Failure::InvalidDevice, "CUDA_ERROR_INVALID_DEVICE\0", "invalid device ordinal\0"),
    (Failure::InvalidContext, "CUDA_ERROR_INVALID_CONTEXT\0", "invalid device context\0"),
    (
        Failure::NoBinaryForGpu,
        "CUDA_ERROR_NO_BINARY_FOR_GPU\0",
        "no kernel image is available for execution on the device\0",
    ),
    (Failure::InvalidPtx, "CUDA_ERROR_INVALID_PTX\0", "a PTX JIT compilation failed\0"),
    (
        Failure::UnsupportedPtxVersion,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION\0",
        "the provided PTX was compiled with an unsupported toolchain.\0",
    ),
    (Failure::InvalidHandle, "CUDA_ERROR_INVALID_HANDLE\0", "invalid resource handle\0"),
    (Failure::NotFound, "CUDA_ERROR_NOT_FOUND\0", "named symbol not found\0"),
    (Failure::IllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS\0", "an illegal memory access was encountered\0"),
    (Failure::LaunchFailed, "CUDA_ERROR_LAUNCH_FAILED\0", "unspecified launch failure\0"),
    (Failure::NotSupported, "CUDA_ERROR_NOT_SUPPORTED\0", "operation not supported\0"),
    (Failure::Unknown, "CUDA_ERROR_UNKNOWN\0", "unknown error\0"),
];

/// Name and text of an error's number, each with a closing zero; `None` for a number that this driver never answers.
pub(crate) fn texts(number: i32) -> Option<(&'static str, &'static str)> {
    TEXTS.iter().find(|(failure, ..)| *failure as i32 == number).map(|&(_, name, text)| (name, text))
}

/// The answer of a call.
pub(crate) fn answer(result: Result<(), Failure>) -> i32 {
    result.map_or_else(|failure| failure as i32, |()| SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_name_and_a_text_that_end() {
        for (failure, name, text) in TEXTS {
            assert!(name.ends_with('\0') && text.ends_with('\0'), "{failure:?}");
            assert_eq!(texts(failure as i32), Some((name, text)));
        }
        assert_eq!(texts(12_345), None);
    }
}
