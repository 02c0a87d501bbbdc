use cubecl::{ir::ElemType, prelude::*, std::FastDivmod};

use crate::{
    image::ImageOrder,
    launch::{addresses, cube, cubes, element, length},
    tensor::{GpuRuntime, GpuTensor, contiguous, empty, sizes},
};

/// The weight `[C_out, C_in, k, k]` turned by 180°, with its channels exchanged: `[C_in, C_out, k, k]`, channels-last in memory.
/// The gradient of a convolution's input is the convolution of the output's gradient by this weight. One launch.
pub(super) fn turned(weight: GpuTensor) -> GpuTensor {
    let weight = contiguous(weight);
    let [outputs, inputs, rows, columns] = sizes(&weight);
    let output = empty(&weight, &[inputs, rows, columns, outputs], weight.dtype);
    let (elements, taps) = (length(&output), rows * columns);
    // SAFETY: both have that many elements, and the place of each is below it.
    unsafe {
        turn::launch_unchecked::<GpuRuntime>(
            &output.client,
            cubes(&output, elements),
            cube(),
            addresses(&[&weight, &output]),
            weight.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            elements,
            outputs,
            taps,
            inputs,
            taps,
            element(&weight),
        );
    }
    ImageOrder::ChannelsLast.image(output)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn turn<E: Numeric>(
    weight: &[E],
    output: &mut [E],
    elements: usize,
    outputs: FastDivmod<usize>,
    places: FastDivmod<usize>,
    inputs: usize,
    taps: usize,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < elements {
        let (rest, from) = outputs.div_mod(at);
        let (to, place) = places.div_mod(rest);
        output[at] = weight[(from * inputs + to) * taps + taps - 1 - place];
    }
}
