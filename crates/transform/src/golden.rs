//! The deterministic operations against torchvision and Pillow: `tests/golden/augment.json`, which
//! `tools/golden/augment.py` writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use super::{
    affine::{affine, rotation, shear, translation},
    color,
    image_shape::ImageShape,
    rand_augment::Operation,
    resize::{Fit, Resize, fitted, resized},
    view::{View, Window},
};

#[derive(Deserialize)]
struct Golden {
    images: BTreeMap<String, Image>,
    cases: Vec<Case>,
}

/// Pixels by channel and row.
#[derive(Clone, Deserialize)]
struct Image {
    shape: [usize; 3],
    #[serde(deserialize_with = "hexadecimal")]
    pixels: Vec<u8>,
}

/// Bytes of two hexadecimal digits each.
fn hexadecimal<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let digits = String::deserialize(deserializer)?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(D::Error::custom);
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[derive(Deserialize)]
struct Case {
    image: String,
    operation: String,
    numbers: Vec<f64>,
    result: Image,
}

impl Image {
    fn shape(&self) -> ImageShape {
        let [channels, height, width] = self.shape;
        ImageShape { channels, height, width }
    }
}

/// The result of an operation, and the largest difference that is allowed at any pixel.
fn computed(image: &Image, case: &Case) -> (Vec<u8>, u8) {
    let shape = image.shape();
    let first = case.numbers.first().copied().unwrap_or(0.0);
    let whole = |index: usize| case.numbers[index] as usize;
    let in_place = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut pixels = image.pixels.clone();
        change(&mut pixels);
        pixels
    };
    let view = View::planar(&image.pixels, shape);
    let moved = |matrix| (affine(&image.pixels, shape, matrix), 1);
    // Coordinates and averages of floats that lie between two bytes may be rounded to either.
    match case.operation.as_str() {
        "brightness" => (in_place(&|pixels| color::brightness(pixels, first)), 0),
        "contrast" => (in_place(&|pixels| color::contrast(pixels, shape, first)), 0),
        "saturation" => (in_place(&|pixels| color::saturation(pixels, shape, first)), 0),
        "hue" => (in_place(&|pixels| color::hue(pixels, shape, first)), 1),
        "sharpness" => (in_place(&|pixels| color::sharpness(pixels, shape, first)), 1),
        "posterize" => (in_place(&|pixels| color::posterize(pixels, first as u32)), 0),
        "solarize" => (in_place(&|pixels| color::solarize(pixels, first)), 0),
        "autocontrast" => (in_place(&|pixels| color::autocontrast(pixels, shape)), 0),
        "equalize" => (in_place(&|pixels| color::equalize(pixels, shape)), 0),
        "rotate" => moved(rotation(first)),
        "shear_x" => moved(shear(first, 0.0, shape)),
        "shear_y" => moved(shear(0.0, first, shape)),
        "translate" => moved(translation(first, case.numbers[1])),
        // Of some shapes Pillow resizes along columns first, and rounds before it resizes along rows.
        "resize" => (resized(view, whole(0), whole(1), Resize::Bilinear), 1),
        "resize_nearest" => (resized(view, whole(0), whole(1), Resize::Nearest), 0),
        "fit" => {
            let size = ImageShape { height: whole(0), width: whole(0), ..shape };
            (fitted(view, size, Resize::Bilinear, Fit::Crop), 1)
        }
        "resized_crop" => {
            let window = Window { top: whole(0), left: whole(1), height: whole(2), width: whole(3) };
            (resized(view.window(window), whole(4), whole(4), Resize::Bilinear), 1)
        }
        // The kind, the magnitude and the sign.
        "rand_augment" => {
            let operation = Operation::new(whole(0), whole(1), case.numbers[2], shape);
            (in_place(&|pixels| operation.apply(pixels, shape)), 1)
        }
        // The golden file has the operations above alone.
        other => panic!("the test knows no operation `{other}`"),
    }
}

#[test]
fn operations_equal_those_of_torchvision_and_pillow() {
    let golden: Golden =
        serde_json::from_str(include_str!("../tests/golden/augment.json")).expect("golden values");
    assert!(golden.cases.len() > 100, "{} cases", golden.cases.len());
    let mut wrong = Vec::new();
    for case in &golden.cases {
        let (found, tolerance) = computed(&golden.images[&case.image], case);
        let name = format!("{} {:?} of {}", case.operation, case.numbers, case.image);
        assert_eq!(found.len(), case.result.shape().elements(), "{name}");
        let differences = found.iter().zip(&case.result.pixels).map(|(a, b)| a.abs_diff(*b));
        let (most, different) = differences.fold((0, 0), |(most, count), difference| {
            (difference.max(most), count + usize::from(difference > 0))
        });
        // A difference of 1 is a rounding error. Many means of two pixels lie between two bytes.
        if most > tolerance || different * 4 > found.len() {
            wrong.push(format!("{name}: {different} of {} pixels differ, by {most} at most", found.len()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
