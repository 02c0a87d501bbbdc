//! Looks for CUDA before Burn does: its loader panics where a library is missing.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libloading::{Library, Symbol};
use oomph_config::DeviceName;
use oomph_core::Bytes;

use crate::{
    DeviceError, DeviceInfo,
    installation::{Compiler, Driver, Nccl},
};

const DRIVER: &str = "libcuda.so.1";

/// File names of the run-time compiler, as Burn's loader tries them for the CUDA versions in use.
const COMPILERS: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// File names of NCCL as Burn's loader tries them. Its own, with the 2 of its version, is not among them.
const NCCL: [&str; 3] = ["libnccl.so", "libnccl.so.13", "libnccl.so.12"];
const NCCL_ITSELF: &str = "libnccl.so.2";

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
const CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
const CAPABILITY_MINOR: c_int = 76;

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

/// What the driver tells of itself and its GPUs.
pub(crate) fn driver(device: DeviceName) -> Result<Driver, DeviceError> {
    let gpus = gpus(device)?;
    let driver = load(device, DRIVER)?;
    let checked = |code: c_int| if code == 0 { Ok(()) } else { Err(DeviceError::Driver { device, code }) };
    // SAFETY: as in `gpus`.
    unsafe {
        let version: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> =
            symbol(&driver, device, b"cuDriverGetVersion\0")?;
        let attribute: Symbol<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int> =
            symbol(&driver, device, b"cuDeviceGetAttribute\0")?;
        let mut number = 0;
        checked(version(&mut number))?;
        let capability = |index| {
            let (mut major, mut minor) = (0, 0);
            checked(attribute(&mut major, CAPABILITY_MAJOR, index))?;
            checked(attribute(&mut minor, CAPABILITY_MINOR, index))?;
            Ok((major, minor))
        };
        let capabilities = (0..gpus.len() as c_int).map(capability).collect::<Result<_, _>>()?;
        Ok(Driver { version: (number / 1000, number % 1000 / 10), capabilities })
    }
}

/// What the run-time compiler tells of itself. `None` where there is none.
pub(crate) fn compiler() -> Option<Compiler> {
    let found = |name: &'static str| Some((name, load(DeviceName::Cuda(0), name).ok()?));
    let (file, library) = COMPILERS.into_iter().find_map(found)?;
    // SAFETY: the signatures are those of nvrtc.h, stable since CUDA 11.2; every pointer is to a local of the type the
    // call writes, and the list is as long as the call before said.
    unsafe {
        let version: Symbol<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
            library.get(b"nvrtcVersion\0").ok()?;
        let (mut major, mut minor) = (0, 0);
        let told = version(&mut major, &mut minor) == 0;
        let mut architectures = Vec::new();
        let count: Result<Symbol<unsafe extern "C" fn(*mut c_int) -> c_int>, _> =
            library.get(b"nvrtcGetNumSupportedArchs\0");
        let list: Result<Symbol<unsafe extern "C" fn(*mut c_int) -> c_int>, _> =
            library.get(b"nvrtcGetSupportedArchs\0");
        if let (Ok(count), Ok(list)) = (count, list) {
            let mut number = 0;
            if count(&mut number) == 0 {
                architectures.resize(usize::try_from(number).unwrap_or(0), 0);
                if list(architectures.as_mut_ptr()) != 0 {
                    architectures.clear();
                }
            }
        }
        Some(Compiler { file, version: told.then_some((major, minor)), architectures })
    }
}

/// The collective library, under the names that Burn's loader tries, and under its own.
pub(crate) fn nccl() -> Nccl {
    let found = |name: &&'static str| load(DeviceName::Cuda(0), name).is_ok();
    match NCCL.iter().find(|name| found(name)) {
        Some(file) => Nccl::Found { file },
        None if found(&NCCL_ITSELF) => Nccl::OtherName { file: NCCL_ITSELF },
        None => Nccl::Missing,
    }
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
