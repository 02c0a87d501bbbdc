//! Low-level failures in words: what a message of the driver, of NVRTC, of NCCL or of the system means, and what to do.

mod known;

use self::known::{KNOWN, OUT_OF_MEMORY};

/// What a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What happened, with the likely cause: one sentence.
    pub what: &'static str,
    /// What can be done about it.
    pub hint: &'static str,
}

/// A kind of failure and how it is recognised.
#[derive(Debug)]
struct Known {
    /// One of these is enough: each is a list of texts that all stand in the message.
    texts: &'static [&'static [&'static str]],
    /// The driver's number for it (`CUresult`), where a message has only that.
    code: Option<u16>,
    meaning: Explanation,
}

impl Known {
    fn matches(&self, message: &str) -> bool {
        stands_in(self.texts, message)
            || self.code.is_some_and(|code| code_in(message) == Some(code.to_string().as_str()))
    }
}

/// What the message means, where it is known. Of several explanations it is the most specific.
///
/// ```
/// let message = r#"called `Result::unwrap()` on an `Err` value: DriverError(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")"#;
/// assert!(oomph_trainer::explain(message).is_some_and(|it| it.what.contains("no GPU")));
/// assert_eq!(oomph_trainer::explain("index out of bounds"), None);
/// ```
pub fn explain(message: &str) -> Option<Explanation> {
    KNOWN.iter().find(|known| known.matches(message)).map(|known| known.meaning)
}

/// Whether the message says that a GPU has no memory left for an allocation.
///
/// Read from the sources of cubecl-runtime and cubecl-cuda 0.11.0 (pre-release 3), which Burn is pinned to. What
/// follows such a failure on other threads is not meant (see [`is_after_a_failure`]), nor host memory.
pub fn is_out_of_memory(message: &str) -> bool {
    stands_in(OUT_OF_MEMORY, message) && !message.contains("cuMemAllocHost")
}

/// Whether the message is what Burn says of a tensor whose making failed before, on the thread of the device: that
/// failure, not this one, is what went wrong.
pub fn is_after_a_failure(message: &str) -> bool {
    stands_in(known::AFTER_A_FAILURE, message)
}

/// The message on one line, without the backtraces and sources of kernels that Burn's errors carry.
pub fn without_backtrace(message: &str) -> String {
    // An error within another one's debug text has its line breaks escaped.
    let text = message.replace("\\n", "\n");
    let lines = text.lines().map(str::trim).take_while(|line| !starts_details(line));
    lines.filter(|line| !line.is_empty() && !line.starts_with("Backtrace")).collect::<Vec<_>>().join(" ")
}

fn starts_details(line: &str) -> bool {
    line.starts_with("0: ") || line.starts_with("No backtrace available") || line.starts_with("[Source]")
}

fn stands_in(texts: &[&[&str]], message: &str) -> bool {
    texts.iter().any(|all| all.iter().all(|text| message.contains(text)))
}

/// The number in `the CUDA driver failed with code 100`.
fn code_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("CUDA driver failed with code ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests;
