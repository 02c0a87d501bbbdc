//! Looks for CUDA before Burn does: Burn's loader panics where a library is missing.

use std::ffi::{CStr, c_char, c_int, c_uint};

use libloading::{Library, Symbol};
use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_doctor::{CudaDriver, CudaLibraries, Nccl, Nvrtc};

use super::{DeviceInfo, OpenDeviceError};

const DRIVER: &str = "libcuda.so.1";

/// File names of the run-time compiler that Burn's loader tries.
const COMPILERS: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// File names of NCCL that Burn's loader tries. NCCL's own file name, [`NCCL_ITSELF`], is missing there.
const NCCL: [&str; 3] = ["libnccl.so", "libnccl.so.13", "libnccl.so.12"];
const NCCL_ITSELF: &str = "libnccl.so.2";

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
const CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
const CAPABILITY_MINOR: c_int = 76;

/// The GPUs that the driver shows to this process, by index.
pub(super) fn gpus(device: DeviceName) -> Result<Vec<DeviceInfo>, OpenDeviceError> {
    let driver = load(device, DRIVER)?;
    let checked =
        |code: c_int| if code == 0 { Ok(()) } else { Err(OpenDeviceError::Driver { device, code }) };
    // SAFETY: the signatures are those of the CUDA driver API (cuda.h), stable since CUDA 3.2; every pointer is to a
    // local of the type that the call writes.
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

/// Checks that the GPU multiplies bf16. CubeCL takes every card with tensor cores for one, and its kernels do not compile.
pub(super) fn find_bf16(device: DeviceName, index: usize) -> Result<(), OpenDeviceError> {
    let capabilities = driver(device)?.capabilities;
    match capabilities.get(index) {
        Some((major, minor)) if *major < 8 => {
            Err(OpenDeviceError::NoBf16 { device, major: *major, minor: *minor })
        }
        _ => Ok(()),
    }
}

/// Checks that kernels can be compiled.
pub(super) fn find_compiler(device: DeviceName) -> Result<(), OpenDeviceError> {
    let tried = COMPILERS.map(|name| load(device, name));
    if tried.iter().any(Result::is_ok) {
        return Ok(());
    }
    let [first, ..] = tried;
    first.map(drop)
}

/// The libraries that CUDA needs. All are unloaded again.
pub(super) fn libraries() -> CudaLibraries {
    let driver = driver(DeviceName::Cuda(0)).map_err(|error| error.to_string());
    CudaLibraries { driver, nvrtc: compiler(), nccl: nccl() }
}

/// The driver's library and its GPUs.
fn driver(device: DeviceName) -> Result<CudaDriver, OpenDeviceError> {
    let gpus = gpus(device)?;
    let driver = load(device, DRIVER)?;
    let checked =
        |code: c_int| if code == 0 { Ok(()) } else { Err(OpenDeviceError::Driver { device, code }) };
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
        Ok(CudaDriver { version: (number / 1000, number % 1000 / 10), capabilities })
    }
}

/// The run-time compiler with its version; `None` where it is missing.
fn compiler() -> Option<Nvrtc> {
    let found = |name: &'static str| Some((name, load(DeviceName::Cuda(0), name).ok()?));
    let (file, library) = COMPILERS.into_iter().find_map(found)?;
    // SAFETY: the signatures are those of nvrtc.h, stable since CUDA 11.2; every pointer is to a local of the type the
    // call writes, and the list is as long as the call before said.
    unsafe {
        let version: Symbol<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
            library.get(b"nvrtcVersion\0").ok()?;
        let (mut major, mut minor) = (0, 0);
        let reported = version(&mut major, &mut minor) == 0;
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
        Some(Nvrtc { file, version: reported.then_some((major, minor)), architectures })
    }
}

/// NCCL, under the names that Burn's loader tries and under its own.
pub(super) fn nccl() -> Nccl {
    let found = |name: &&'static str| load(DeviceName::Cuda(0), name).is_ok();
    match NCCL.iter().find(|name| found(name)) {
        Some(file) => Nccl::Found { file },
        None if found(&NCCL_ITSELF) => Nccl::OtherName { file: NCCL_ITSELF },
        None => Nccl::Missing,
    }
}

fn load(device: DeviceName, library: &'static str) -> Result<Library, OpenDeviceError> {
    // SAFETY: these are the vendor's libraries, whose loading runs no code of ours and is what Burn does next anyway.
    unsafe { Library::new(library) }.map_err(|error| OpenDeviceError::Library {
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
) -> Result<Symbol<'a, T>, OpenDeviceError> {
    // SAFETY: the caller's.
    unsafe { driver.get(name) }.map_err(|error| OpenDeviceError::Library {
        device,
        library: DRIVER,
        reason: error.to_string(),
    })
}
