//! Changes of colour and contrast, with the arithmetic of torchvision on tensors of bytes.
//!
//! Pixels go from 0 to 255, by channel and row. Images have 1 or 3 channels.

use super::image_shape::ImageShape;

/// Multiplies all pixels by `factor`: 0 is black, 1 the image itself.
pub(super) fn brightness(pixels: &mut [u8], factor: f64) {
    let blend = Blend::new(factor);
    pixels.iter_mut().for_each(|pixel| *pixel = blend.of(*pixel, 0.0));
}

/// Moves all pixels away from the mean grey: with `factor` 0 they equal the mean, with 1 they stay.
pub(super) fn contrast(pixels: &mut [u8], shape: ImageShape, factor: f64) {
    let area = shape.height * shape.width;
    let total: u64 = match shape.channels {
        3 => (0..area).map(|place| u64::from(grey(pixels, area, place))).sum(),
        _ => pixels.iter().map(|&pixel| u64::from(pixel)).sum(),
    };
    let mean = (total as f64 / area as f64) as f32;
    let blend = Blend::new(factor);
    pixels.iter_mut().for_each(|pixel| *pixel = blend.of(*pixel, mean));
}

/// Moves all pixels away from their grey: with `factor` 0 the image is grey, with 1 it stays. A grey image stays.
pub(super) fn saturation(pixels: &mut [u8], shape: ImageShape, factor: f64) {
    if shape.channels != 3 {
        return;
    }
    let (area, blend) = (shape.height * shape.width, Blend::new(factor));
    for place in 0..area {
        let grey = f32::from(grey(pixels, area, place));
        (0..3).for_each(|channel| {
            pixels[channel * area + place] = blend.of(pixels[channel * area + place], grey);
        });
    }
}

/// Turns the hue of all pixels by a share of the circle of colours, from −0.5 to 0.5. A grey image stays.
pub(super) fn hue(pixels: &mut [u8], shape: ImageShape, turn: f64) {
    if shape.channels != 3 {
        return;
    }
    let (area, turn) = (shape.height * shape.width, turn as f32);
    for place in 0..area {
        let rgb = [0, 1, 2].map(|channel| f32::from(pixels[channel * area + place]) / 255.0);
        let (hue, saturation, value) = hsv(rgb);
        let turned = rgb_of((hue + turn).rem_euclid(1.0), saturation, value);
        // As torchvision scales floats to bytes.
        for (channel, value) in turned.into_iter().enumerate() {
            pixels[channel * area + place] = (value * 255.999) as u8;
        }
    }
}

/// `factor` times a pixel and 1 − `factor` times another value.
struct Blend {
    pixel: f32,
    other: f32,
}

impl Blend {
    fn new(factor: f64) -> Self {
        Self { pixel: factor as f32, other: (1.0 - factor) as f32 }
    }

    fn of(&self, pixel: u8, other: f32) -> u8 {
        (self.pixel * f32::from(pixel) + self.other * other).clamp(0.0, 255.0) as u8
    }
}

/// Makes an image sharper, or blurred where `factor` is below 1. The outermost pixels stay.
pub(super) fn sharpness(pixels: &mut [u8], shape: ImageShape, factor: f64) {
    let ImageShape { height, width, .. } = shape;
    if height <= 2 || width <= 2 {
        return;
    }
    let blend = Blend::new(factor);
    for channel in pixels.chunks_exact_mut(height * width) {
        let before = channel.to_vec();
        for y in 1..height - 1 {
            for x in 1..width - 1 {
                let around = (y - 1..=y + 1).flat_map(|y| &before[y * width + x - 1..=y * width + x + 1]);
                let sum: u32 = around.map(|&pixel| u32::from(pixel)).sum();
                let pixel = before[y * width + x];
                // The kernel has 5 in its middle and 1 around.
                let blurred = ((sum + 4 * u32::from(pixel)) as f32 / 13.0).round_ties_even();
                channel[y * width + x] = blend.of(pixel, blurred);
            }
        }
        // Blending the outermost pixels with themselves may lose a half, as it does in torchvision.
        for y in 0..height {
            let edge = if y == 0 || y == height - 1 { 1 } else { width - 1 };
            for x in (0..width).step_by(edge) {
                let pixel = before[y * width + x];
                channel[y * width + x] = blend.of(pixel, f32::from(pixel));
            }
        }
    }
}

/// Keeps the highest `bits` bits of every pixel, of 1 to 8.
pub(super) fn posterize(pixels: &mut [u8], bits: u32) {
    let mask = u8::MAX << (8 - bits);
    pixels.iter_mut().for_each(|pixel| *pixel &= mask);
}

/// Inverts the pixels from `threshold` on.
pub(super) fn solarize(pixels: &mut [u8], threshold: f64) {
    let inverted = pixels.iter_mut().filter(|pixel| f64::from(**pixel) >= threshold);
    inverted.for_each(|pixel| *pixel = 255 - *pixel);
}

/// Stretches the values of each channel to 0 to 255.
pub(super) fn autocontrast(pixels: &mut [u8], shape: ImageShape) {
    for channel in pixels.chunks_exact_mut(shape.height * shape.width) {
        let least = channel.iter().copied().min().unwrap_or(0);
        let most = channel.iter().copied().max().unwrap_or(0);
        if least < most {
            let scale = 255.0 / f32::from(most - least);
            channel.iter_mut().for_each(|pixel| *pixel = (f32::from(*pixel - least) * scale) as u8);
        }
    }
}

/// Makes the values of each channel about equally frequent.
pub(super) fn equalize(pixels: &mut [u8], shape: ImageShape) {
    for channel in pixels.chunks_exact_mut(shape.height * shape.width) {
        let mut counts = [0; 256];
        channel.iter().for_each(|&pixel| counts[usize::from(pixel)] += 1);
        let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let step = (channel.len() - counts[last]) / 255;
        if step == 0 {
            continue;
        }
        let mut below = 0;
        let table = counts.map(|count| {
            let value = ((below + step / 2) / step).min(255) as u8;
            below += count;
            value
        });
        channel.iter_mut().for_each(|pixel| *pixel = table[usize::from(*pixel)]);
    }
}

/// The luminance of a pixel of an RGB image, by torchvision's weights.
fn grey(pixels: &[u8], area: usize, place: usize) -> u8 {
    let [red, green, blue] = [0, 1, 2].map(|channel| f32::from(pixels[channel * area + place]));
    (0.2989 * red + 0.587 * green + 0.114 * blue) as u8
}

/// Hue, saturation and value, each from 0 to 1.
fn hsv([red, green, blue]: [f32; 3]) -> (f32, f32, f32) {
    let most = red.max(green).max(blue);
    let least = red.min(green).min(blue);
    if most == least {
        return (0.0, 0.0, most);
    }
    let spread = most - least;
    let [from_red, from_green, from_blue] = [red, green, blue].map(|value| (most - value) / spread);
    let sixths = if most == red {
        from_blue - from_green
    } else if most == green {
        2.0 + from_red - from_blue
    } else {
        4.0 + from_green - from_red
    };
    ((sixths / 6.0 + 1.0) % 1.0, spread / most, most)
}

/// Red, green and blue of a hue, saturation and value.
fn rgb_of(hue: f32, saturation: f32, value: f32) -> [f32; 3] {
    let sextant = (hue * 6.0).floor();
    let share = hue * 6.0 - sextant;
    let p = (value * (1.0 - saturation)).clamp(0.0, 1.0);
    let q = (value * (1.0 - saturation * share)).clamp(0.0, 1.0);
    let t = (value * (1.0 - saturation * (1.0 - share))).clamp(0.0, 1.0);
    match sextant as u8 % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    }
}
