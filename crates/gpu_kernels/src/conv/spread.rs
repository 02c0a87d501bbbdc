use cubecl::{ir::ElemType, prelude::*, std::FastDivmod};

use super::channels_last;
use crate::{
    image::ImageOrder,
    launch::{addresses, cube, cubes, element, length, vector_width},
    tensor::{GpuRuntime, GpuTensor, empty, sizes},
};

/// An image of `size` whose pixels at multiples of the stride are those of `image`; the others are zero. One launch.
pub(super) fn spread(image: GpuTensor, stride: [usize; 2], [height, width]: [usize; 2]) -> GpuTensor {
    let image = channels_last(image);
    let [batch, rows, columns, channels] = sizes(&image);
    let output = empty(&image, &[batch, height, width, channels], image.dtype);
    let elements = vector_width(channels, &[image.dtype]);
    let (pixel, vectors) = (channels / elements, length(&output) / elements);
    // SAFETY: the output has that many vectors. A vector of the image is read only where its row and column are in the image.
    unsafe {
        spread_pixels::launch_unchecked::<GpuRuntime>(
            &output.client,
            cubes(&output, vectors),
            cube(),
            addresses(&[&image, &output]),
            elements,
            image.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            vectors,
            PlacesLaunch::new(pixel, pixel, width, height, rows, columns, stride[0], stride[1]),
            element(&image),
        );
    }
    ImageOrder::ChannelsLast.image(output)
}

/// Where the vectors of an image lie in a larger one.
#[derive(CubeType, CubeLaunch)]
struct Places {
    /// Vectors of a pixel.
    vectors: usize,
    pixel: FastDivmod<usize>,
    /// Sizes of the larger image.
    width: FastDivmod<usize>,
    height: FastDivmod<usize>,
    /// Sizes of the image.
    rows: usize,
    columns: usize,
    /// The strides.
    down: FastDivmod<usize>,
    across: FastDivmod<usize>,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn spread_pixels<E: Numeric, N: Size>(
    image: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    vectors: usize,
    places: Places,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < vectors {
        let (place, channel) = places.pixel.div_mod(at);
        let (line, x) = places.width.div_mod(place);
        let (sample, y) = places.height.div_mod(line);
        let (row, below) = places.down.div_mod(y);
        let (column, beside) = places.across.div_mod(x);
        let mut value = Vector::new(E::from_int(0));
        if below + beside == 0 && row < places.rows && column < places.columns {
            let pixel = (sample * places.rows + row) * places.columns + column;
            value = image[pixel * places.vectors + channel];
        }
        output[at] = value;
    }
}
