//! Modules, their kernels, and launches.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    slice,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    thread::available_parallelism,
};

use oomph_ptx::{Access, ExecError, KernelAccesses, Sectors};

use super::put;
use crate::{
    card::{Card, SHARED_BYTES},
    counters::count,
    device::Device,
    failure::{Failure, answer},
    kernels::{self, PTX},
    machine::{current, machine},
    ptx::{Kernel, Module},
    settings::Mode,
    traffic::{self, Traffic},
};

/// A kernel that was asked of a module.
struct Function {
    kernel: Kernel,
    code: Option<Arc<oomph_ptx::Module>>,
    accesses: Option<KernelAccesses>,
    /// The dynamic shared memory that it may have.
    most_dynamic_bytes: AtomicI32,
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: *mut *mut Module, image: *const c_char) -> c_int {
    answer(current().and_then(|device| {
        if image.is_null() {
            return Err(Failure::InvalidValue);
        }
        // SAFETY: PTX ends with a zero, as `cuda.h` demands.
        let text = unsafe { CStr::from_ptr(image) }.to_str().map_err(|_| Failure::InvalidPtx)?;
        let read = Module::load(text, device.card.capability).inspect_err(|_| {
            count(&device.counters.refused_modules);
        })?;
        count(&device.counters.modules);
        if let Some(folder) = &machine().settings.kernels {
            let kernel = read.kernels.first().map_or("none", |kernel| kernel.name.as_str());
            kernels::keep(folder, kernel, PTX, text);
        }
        // A module stays until the process ends: kernels of it may be in use.
        put(module, Box::leak(Box::new(read)))
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(_module: *mut Module) -> c_int {
    answer(Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(
    function: *mut *mut Function,
    module: *const Module,
    name: *const c_char,
) -> c_int {
    // SAFETY: handles of modules come from `cuModuleLoadData`, which leaks them; names end with a zero.
    let (module, name) = unsafe { (module.as_ref(), name.as_ref().map(|name| CStr::from_ptr(name))) };
    let found = module.zip(name).ok_or(Failure::InvalidHandle).and_then(|(module, name)| {
        let kernel = module.kernels.iter().find(|kernel| kernel.name.as_bytes() == name.to_bytes());
        let kernel = kernel.ok_or(Failure::NotFound)?.clone();
        let most = SHARED_BYTES - kernel.shared_bytes as i32;
        let made = Function {
            code: module.code.clone(),
            accesses: module.accesses(&kernel.name).cloned(),
            most_dynamic_bytes: AtomicI32::new(most),
            kernel,
        };
        put(function, Box::leak(Box::new(made)))
    });
    answer(found)
}

fn function(handle: *const Function) -> Result<&'static Function, Failure> {
    // SAFETY: handles come from `cuModuleGetFunction`, which leaks them.
    unsafe { handle.as_ref() }.ok_or(Failure::InvalidHandle)
}

/// `CU_FUNC_ATTRIBUTE_…`: threads of a block, static shared bytes, most dynamic shared bytes.
const MOST_THREADS: c_int = 0;
const STATIC_SHARED: c_int = 1;
const MOST_DYNAMIC_SHARED: c_int = 8;

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(handle: *const Function, number: c_int, value: c_int) -> c_int {
    answer(current().and_then(|device| {
        let function = function(handle)?;
        if number != MOST_DYNAMIC_SHARED {
            return Ok(());
        }
        if i64::from(value) + function.kernel.shared_bytes as i64 > i64::from(device.card.most_shared_bytes) {
            return Err(Failure::InvalidValue);
        }
        let fixed = SHARED_BYTES - function.kernel.shared_bytes as i32;
        function.most_dynamic_bytes.store(value.max(fixed), Relaxed);
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(value: *mut c_int, number: c_int, handle: *const Function) -> c_int {
    answer(function(handle).and_then(|function| {
        let found = match number {
            MOST_THREADS => function.kernel.most_threads.unwrap_or(1_024) as c_int,
            STATIC_SHARED => function.kernel.shared_bytes as c_int,
            MOST_DYNAMIC_SHARED => function.most_dynamic_bytes.load(Relaxed),
            _ => 0,
        };
        put(value, found)
    }))
}

/// A launch: blocks, threads of a block, dynamic shared bytes.
#[derive(Debug)]
struct Launch {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
}

impl Launch {
    /// Checks the launch against the limits of card and kernel.
    fn check(&self, card: &Card, function: &Function) -> Result<(), Failure> {
        let Self { grid: [grid_x, grid_y, grid_z], block: [x, y, z], shared_bytes } = *self;
        let threads = u64::from(x) * u64::from(y) * u64::from(z);
        let most =
            u64::from(function.kernel.most_threads.unwrap_or(1_024)).min(1_024).min(card.threads as u64);
        let fits = [grid_x, grid_y, grid_z, x, y, z].iter().all(|count| *count > 0)
            && grid_x <= i32::MAX as u32
            && grid_y.max(grid_z) <= 65_535
            && x.max(y) <= 1_024
            && z <= 64
            && threads <= most
            && i64::from(shared_bytes) <= i64::from(function.most_dynamic_bytes.load(Relaxed));
        if fits { Ok(()) } else { Err(Failure::InvalidValue) }
    }
}

impl Launch {
    /// Runs the kernel, if kernels run. A failure ends the context.
    fn run(&self, device: &Device, function: &Function, parameters: *const *const u8) {
        let name = &function.kernel.name;
        let sectors = (machine().settings.mode == Mode::Sectors).then(Sectors::default);
        let Some(kernel) = function.code.as_ref().and_then(|code| code.kernel(name)) else { return };
        let parameters: Vec<&[u8]> = kernel
            .parameters()
            .iter()
            .enumerate()
            // SAFETY: the caller passes a pointer to the value of each of the kernel's parameters.
            .map(|(index, bytes)| unsafe { slice::from_raw_parts(*parameters.add(index), *bytes) })
            .collect();
        let ran = kernel.run(&oomph_ptx::Launch {
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes as usize,
            parameters: &parameters,
            memory: &device.memory,
            threads: available_parallelism().map_or(1, usize::from),
            sectors: sectors.as_ref(),
        });
        match ran {
            Ok(ran) => {
                device.counters.ran(ran);
                if let Some(sectors) = sectors {
                    device.counters.add(
                        name,
                        Traffic {
                            sector_bytes_read: sectors.read_bytes(),
                            sector_bytes_written: sectors.written_bytes(),
                            ..Traffic::default()
                        },
                    );
                }
            }
            Err(error) => {
                eprintln!("cuda-sim: {error}");
                machine().log.line(format_args!("failed: {error}"));
                device.end(match error {
                    ExecError::IllegalAddress { .. } => Failure::IllegalAddress,
                    _ => Failure::LaunchFailed,
                });
            }
        }
    }
}

/// Counts the bytes of the buffers that a launch accesses.
fn count_bytes(device: &Device, function: &Function, parameters: *const *const u64) {
    let Some(accesses) = &function.accesses else {
        count(&device.counters.launches_without_bytes);
        return;
    };
    let is_used = |access: &Access| access.is_read || access.is_written;
    let pointer = |(index, access): (usize, &Access)| {
        // SAFETY: the caller passes a pointer to the value of each parameter, and one through which the kernel reads or
        // writes has 8 bytes.
        is_used(access).then(|| unsafe { (*parameters.add(index)).read_unaligned() })
    };
    let pointers: Vec<_> = accesses.parameters.iter().enumerate().map(pointer).collect();
    device.counters.add(&function.kernel.name, traffic::of_launch(&device.memory, accesses, &pointers));
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    handle: *const Function,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    _stream: *mut c_void,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_int {
    let launch = Launch { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
    answer(current().and_then(|device| {
        let function = function(handle)?;
        let name = &function.kernel.name;
        machine().log.line(format_args!("launch {name} {launch:?}"));
        launch.check(&device.card, function).inspect_err(|_| {
            count(&device.counters.refused_launches);
        })?;
        let shared_bytes = function.kernel.shared_bytes + u64::from(shared_bytes);
        device.counters.most_shared_bytes.fetch_max(shared_bytes, Relaxed);
        device.launch(name);
        count_bytes(device, function, parameters.cast_const().cast());
        launch.run(device, function, parameters.cast_const().cast());
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::card::find;

    use super::*;

    fn check(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, most_threads: Option<u32>) -> bool {
        let kernel = Kernel { name: "k".into(), most_threads, shared_bytes: 0 };
        let function =
            Function { kernel, code: None, accesses: None, most_dynamic_bytes: AtomicI32::new(SHARED_BYTES) };
        Launch { grid, block, shared_bytes }.check(find("T4").unwrap(), &function).is_ok()
    }

    #[test]
    fn a_launch_obeys_the_limits_of_the_card() {
        assert!(check([1 << 30, 65_535, 65_535], [32, 32, 1], 49_152, None));
        assert!(!check([1, 65_536, 1], [1, 1, 1], 0, None));
        assert!(!check([1, 1, 1], [1_025, 1, 1], 0, None));
        assert!(!check([1, 1, 1], [1, 1, 65], 0, None));
        assert!(!check([1, 1, 1], [32, 32, 2], 0, None));
        assert!(!check([0, 1, 1], [1, 1, 1], 0, None));
        assert!(!check([1, 1, 1], [1, 1, 1], 49_153, None));
        assert!(!check([1, 1, 1], [512, 1, 1], 0, Some(256)));
    }
}
