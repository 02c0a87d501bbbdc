//! Looks for CUDA before Burn does: its loader panics where a library is missing.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libloading::{Library, Symbol};
use oomph_config::DeviceName;
use oomph_core::Bytes;

use crate::{DeviceError, DeviceInfo};

const DRIVER: &str = "libcuda.so.1";

/// File names of the run-time compiler, as Burn's loader tries them for the CUDA versions in use.
const COMPILERS: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// The GPUs that the driver shows to this process, in the order of their indices.
pub(crate) fn gpus(device: DeviceName) -> Result<Vec<DeviceInfo>, DeviceError> {
    let driver = load(device, DRIVER)?;
    let checked = |code: c_int| if code == 0 { Ok(()) } else { Err(DeviceError::Driver { device, code }) };
    // SAFETY: the signatures are those of the CUDA driver API (cuda.h), stable since CUDA 3.2; every pointer is to a
    // local of the type the call writes.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(c_uint) -> c_int> = symbol(&driver, device, b"cuInit\0")?;
        let count: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> =
            symbol(&driver, device, b"cuDeviceGetCount\0")?;
        let name: Symbol<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int> =
            symbol(&driver, device, b"cuDeviceGetName\0")?;
        let memory: Symbol<unsafe extern "C" fn(*mut usize, c_int) -> c_int> =
            symbol(&driver, device, b"cuDeviceTotalMem_v2\0")?;
        checked(init(0))?;
        let mut number = 0;
        checked(count(&mut number))?;
        (0..number)
            .map(|index| {
                let (mut text, mut bytes) = ([0; 256], 0);
                checked(name(text.as_mut_ptr(), 255, index))?;
                checked(memory(&mut bytes, index))?;
                Ok(DeviceInfo {
                    name: DeviceName::Cuda(index as usize).to_string(),
                    description: CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned(),
                    memory_bytes: Bytes::new(bytes as u64),
                })
            })
            .collect()
    }
}

/// Checks that kernels can be compiled.
pub(crate) fn find_compiler(device: DeviceName) -> Result<(), DeviceError> {
    let tried = COMPILERS.map(|name| load(device, name));
    if tried.iter().any(Result::is_ok) {
        return Ok(());
    }
    let [first, ..] = tried;
    first.map(drop)
}

fn load(device: DeviceName, library: &'static str) -> Result<Library, DeviceError> {
    // SAFETY: these are the vendor's libraries, whose loading runs no code of ours and is what Burn does next anyway.
    unsafe { Library::new(library) }.map_err(|error| DeviceError::Library {
        device,
        library,
        reason: error.to_string(),
    })
}

/// # Safety
/// `T` is the function's type.
unsafe fn symbol<'a, T>(
    driver: &'a Library,
    device: DeviceName,
    name: &'static [u8],
) -> Result<Symbol<'a, T>, DeviceError> {
    // SAFETY: the caller's.
    unsafe { driver.get(name) }.map_err(|error| DeviceError::Library {
        device,
        library: DRIVER,
        reason: error.to_string(),
    })
}
