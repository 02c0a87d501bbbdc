//! Functions that the simulated driver refuses, and those of which a caller needs no more than an answer.

use std::ffi::{c_int, c_void};

use super::put;
use crate::{
    failure::{Failure, answer},
    machine::machine,
};

/// Functions that answer `CUDA_ERROR_NOT_SUPPORTED`.
macro_rules! refused {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> c_int {
            machine().log.line(format_args!("refused {}", stringify!($name)));
            answer(Err(Failure::NotSupported))
        }
    )*};
}

refused! {
    cuStreamBeginCapture_v2 cuStreamEndCapture
    cuGraphInstantiateWithFlags cuGraphLaunch cuGraphUpload cuGraphDestroy cuGraphExecDestroy cuGraphGetNodes
    cuGraphNodeGetType
}

/// Descriptions of tensors for a card's copy engine are 128 bytes that only kernels read.
macro_rules! tensor_maps {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(map: *mut [u8; 128]) -> c_int {
            answer(put(map, [0; 128]))
        }
    )*};
}

tensor_maps! { cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide }

/// NVRTC asks a driver for private tables, and does without where there are none.
#[unsafe(no_mangle)]
extern "C" fn cuGetExportTable(table: *mut *const c_void, _name: *const c_void) -> c_int {
    answer(put(table, std::ptr::null()).and(Err(Failure::NotFound)))
}
