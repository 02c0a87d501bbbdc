//! NVRTC, NVIDIA's run-time compiler, with a watch on it.
//!
//! The library is linked as `libnvrtc.so` too. It passes each call on to the real compiler, which `CUDA_SIM_NVRTC` names,
//! and sees what the driver cannot: kernels that do not compile. They are counted, logged, and kept in the folder of
//! `CUDA_SIM_KERNELS`.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_int, c_void},
    mem,
    os::unix::ffi::OsStrExt,
    path::Path,
    process,
    sync::{LazyLock, Mutex, PoisonError, atomic::Ordering::Relaxed},
    time::Instant,
};

use crate::{
    counters::count,
    kernels::{self, FAILED, SOURCE},
    machine::machine,
};

/// `nvrtcProgram`.
type Program = *mut c_void;
type Strings = *const *const c_char;

/// The handle of the real compiler, as a number. Without the compiler the process ends: one that compiles nothing would
/// be worthless.
static COMPILER: LazyLock<usize> = LazyLock::new(|| {
    let path = machine().settings.nvrtc.as_deref().unwrap_or(Path::new(""));
    let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: the name ends with a zero.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    // An empty name gives this program itself.
    if name.is_empty() || handle.is_null() {
        eprintln!(
            "cuda-sim: CUDA_SIM_NVRTC: `{}`: expected the path of NVIDIA's libnvrtc.so",
            path.display()
        );
        process::exit(2)
    }
    handle as usize
});

/// The real function of that name.
///
/// # Safety
///
/// `F` is the pointer type of that function, as in `nvrtc.h`.
unsafe fn real<F: Copy>(name: &CStr) -> F {
    // SAFETY: the handle is that of a library, and the name ends with a zero.
    let function = unsafe { libc::dlsym(*COMPILER as *mut c_void, name.as_ptr()) };
    if function.is_null() {
        eprintln!("cuda-sim: CUDA_SIM_NVRTC: the library has no {name:?}");
        process::exit(2)
    }
    // SAFETY: pointers of functions have one size, and the caller knows the type.
    unsafe { mem::transmute_copy(&function) }
}

/// Functions that only pass the call on.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> $answer {
            const NAME: &str = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or_default();
            // SAFETY: the types are those of `nvrtc.h`; the caller answers for its pointers.
            unsafe { real::<unsafe extern "C" fn($($type),*) -> $answer>(name)($($argument),*) }
        }
    )*};
}

pass_on! {
    nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int;
    nvrtcGetNumSupportedArchs(number: *mut c_int) -> c_int;
    nvrtcGetSupportedArchs(architectures: *mut c_int) -> c_int;
    nvrtcGetErrorString(number: c_int) -> *const c_char;
    nvrtcGetPTXSize(program: Program, bytes: *mut usize) -> c_int;
    nvrtcGetPTX(program: Program, text: *mut c_char) -> c_int;
    nvrtcGetProgramLogSize(program: Program, bytes: *mut usize) -> c_int;
    nvrtcGetProgramLog(program: Program, text: *mut c_char) -> c_int;
    nvrtcDestroyProgram(program: *mut Program) -> c_int;
}

/// The sources of programs that were created and not compiled yet, by their handles.
static SOURCES: LazyLock<Mutex<HashMap<usize, CString>>> = LazyLock::new(Mutex::default);

#[unsafe(no_mangle)]
extern "C" fn nvrtcCreateProgram(
    program: *mut Program,
    source: *const c_char,
    name: *const c_char,
    headers: c_int,
    contents: Strings,
    names: Strings,
) -> c_int {
    type Create =
        unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int;
    // SAFETY: sources end with a zero, as `nvrtc.h` demands.
    let mut text = unsafe { CStr::from_ptr(source) }.to_owned();
    let machine = machine();
    if machine.settings.faults.compile_fails_at == Some(count(&machine.compiler.programs)) {
        let broken = [b"#error compile-fails-at\n", text.as_bytes()].concat();
        text = CString::new(broken).unwrap_or_default();
    }
    // SAFETY: the type is that of `nvrtc.h`; the text outlives the call; the caller answers for the other pointers.
    let answer = unsafe {
        real::<Create>(c"nvrtcCreateProgram")(program, text.as_ptr(), name, headers, contents, names)
    };
    if answer == 0 {
        // SAFETY: the call succeeded, so the caller's pointer holds the program.
        let handle = unsafe { *program } as usize;
        SOURCES.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, text);
    }
    answer
}

#[unsafe(no_mangle)]
extern "C" fn nvrtcCompileProgram(program: Program, number: c_int, options: Strings) -> c_int {
    type Compile = unsafe extern "C" fn(Program, c_int, Strings) -> c_int;
    let start = Instant::now();
    // SAFETY: the type is that of `nvrtc.h`; the caller answers for its pointers.
    let answer = unsafe { real::<Compile>(c"nvrtcCompileProgram")(program, number, options) };
    let machine = machine();
    machine.compiler.microseconds.fetch_add(start.elapsed().as_micros() as u64, Relaxed);
    let source = SOURCES.lock().unwrap_or_else(PoisonError::into_inner).remove(&(program as usize));
    if answer != 0 {
        let source = source.unwrap_or_default();
        let source = source.to_string_lossy();
        let (kernel, message) = (kernel(&source), message(program));
        count(&machine.compiler.failures);
        machine.log.line(format_args!("{kernel} does not compile: {message}"));
        if let Some(folder) = &machine.settings.kernels {
            kernels::keep(folder, kernel, FAILED, &format!("{message}\n{SOURCE}\n{source}"));
        }
    }
    answer
}

/// What the compiler said of a program.
fn message(program: Program) -> String {
    let mut bytes = 0;
    if nvrtcGetProgramLogSize(program, &mut bytes) != 0 {
        return String::new();
    }
    let mut text = vec![0_u8; bytes + 1];
    nvrtcGetProgramLog(program, text.as_mut_ptr().cast());
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().trim_end().to_owned()
}

/// The name of the source's kernel: the word before the parameters, behind `__global__` and its attributes.
fn kernel(source: &str) -> &str {
    let head = source.split_once("__global__").map_or("", |(_, rest)| rest);
    let head = head
        .split_once("__launch_bounds__")
        .map_or(head, |(_, rest)| rest.split_once(')').map_or(rest, |(_, behind)| behind));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = head.split('(').next().unwrap_or_default().trim_end();
    let name = before.rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
    if name.is_empty() { "unknown" } else { name }
}

#[cfg(test)]
mod tests {
    use super::kernel;

    #[test]
    fn a_kernel_is_named_as_in_its_source() {
        assert_eq!(kernel("extern \"C\" __global__ void add(const float* a) { f(a); }"), "add");
        assert_eq!(
            kernel("\n__global__ void __launch_bounds__(256)\nfull_kernel_c_f32(\n"),
            "full_kernel_c_f32"
        );
        assert_eq!(kernel("int x;"), "unknown");
    }
}
