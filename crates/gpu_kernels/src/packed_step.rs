//! Optimizer steps over many tensors whose moments are packed into words of 32 bits, in few launches. Parameters and moments
//! overwrite the old ones.
//!
//! The words of a moment are those of `oomph_kernels::packed`: two bf16 a word, or four 8-bit codes a word and behind all
//! codes a scale for each 128 of them.

use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    batches::{Batch, Kind, at_once, batches, position},
    launch::{THREADS, addresses, cube, length, owned},
    tensor::contiguous,
};

/// Elements that a thread has.
const OF_THREAD: usize = 4;

/// Elements with one scale, and the threads that have them.
const BLOCK: usize = 128;
const TEAM: usize = BLOCK / OF_THREAD;

/// The rule of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// SGD with momentum: one moment.
    Sgd {
        /// Whether the momentum is Nesterov's.
        nesterov: bool,
    },
    /// Adam or AdamW: two moments.
    Adam,
    /// Lion: one moment.
    Lion,
}

/// How moments are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Two bf16 a word, rounded stochastically.
    Bf16,
    /// Four 8-bit codes a word, and scales.
    Int8,
}

/// The numbers of a step. Those that the rule does not name are not used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scalars {
    /// The learning rate.
    pub lr: f32,
    /// β₁ and β₂ of Adam and Lion; the momentum of SGD is the first.
    pub betas: [f32; 2],
    /// Adam's correction of both moments; the share of a gradient that enters the velocity of SGD.
    pub factor: f32,
    /// Adam's ε, corrected too.
    pub epsilon: f32,
    /// λ of Adam and SGD.
    pub coupled: f32,
    /// 1 − lr λ of AdamW and Lion.
    pub kept: f32,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its rule.
    pub rule: Rule,
    /// Its numbers.
    pub scalars: Scalars,
    /// How moments are packed.
    pub format: Format,
    /// The number of the step, of which random bits depend.
    pub time: u32,
}

/// A parameter for [`packed_step`].
#[derive(Clone, Debug)]
pub struct Tensors<R: CubeRuntime> {
    /// p, of 32-bit floats.
    pub parameter: CubeTensor<R>,
    /// g, likewise.
    pub gradient: CubeTensor<R>,
    /// The words of each moment.
    pub moments: Vec<CubeTensor<R>>,
}

/// Takes the step for all `tensors`, which are on one device. Gives all parameters, then all of each moment. They overwrite
/// the old ones where nobody else holds those; otherwise they are copied before.
///
/// One launch for each 48 tensors whose elements are a multiple of 4, and for each 48 others. Vulkan takes fewer tensors at
/// once.
///
/// # Panics
/// Panics if a parameter or a gradient is not of 32-bit floats, a moment not of words, or a parameter lacks a moment.
pub fn packed_step<R: CubeRuntime>(step: Step, tensors: Vec<Tensors<R>>) -> Vec<CubeTensor<R>> {
    let prepared = tensors.into_iter().map(|Tensors { parameter, gradient, moments }| {
        assert_eq!(moments.len(), step.rule.moments(), "a parameter has the moments of its rule");
        for moment in &moments {
            let words = step.format.words(length(&parameter));
            assert_eq!(
                (moment.dtype, length(moment)),
                (DType::U32, words),
                "a moment has the words of its format"
            );
        }
        assert_eq!(length(&gradient), length(&parameter), "a gradient has the elements of its parameter");
        Tensors {
            parameter: owned(parameter),
            gradient: contiguous(gradient),
            moments: moments.into_iter().map(owned).collect(),
        }
    });
    let tensors: Vec<Tensors<R>> = prepared.collect();
    if let Some(like) = tensors.first() {
        let at_once = at_once(&like.parameter, 2 + step.rule.moments(), 0);
        for batch in batches(&tensors, at_once, |one| Kind::of(&one.parameter, true)) {
            launch(step, &batch);
        }
    }
    let mut made: Vec<_> = tensors.iter().map(|one| one.parameter.clone()).collect();
    for moment in 0..step.rule.moments() {
        made.extend(tensors.iter().map(|one| one.moments[moment].clone()));
    }
    made
}

impl Rule {
    fn moments(self) -> usize {
        match self {
            Self::Sgd { .. } | Self::Lion => 1,
            Self::Adam => 2,
        }
    }
}

impl Format {
    fn words(self, elements: usize) -> usize {
        match self {
            Self::Bf16 => elements.div_ceil(2),
            Self::Int8 => elements.div_ceil(BLOCK) * (TEAM + 1),
        }
    }

    /// Words without scales.
    fn words_of_elements(self, elements: usize) -> usize {
        match self {
            Self::Bf16 => elements.div_ceil(2),
            Self::Int8 => elements.div_ceil(BLOCK) * TEAM,
        }
    }
}

fn launch<R: CubeRuntime>(step: Step, batch: &Batch<'_, Tensors<R>>) {
    let Scalars { lr, betas: [beta1, beta2], factor, epsilon, coupled, kept } = step.scalars;
    let grid = batch.grid(OF_THREAD / batch.kind.width, |one| &one.parameter);
    let tensors = batch.tensors.iter().zip(&grid.places).map(|(one, place)| {
        let [parameter, gradient] = [&one.parameter, &one.gradient].map(|one| one.clone().into_buffer_arg());
        let mut moments = one.moments.iter().map(|one| one.clone().into_buffer_arg());
        // There is one at least, as asserted above.
        let first = moments.next().expect("a rule has moments");
        BuffersLaunch::new(
            parameter,
            gradient,
            first,
            moments.next().into(),
            place.vectors,
            step.format.words_of_elements(length(&one.parameter)),
            place.first_cube,
        )
    });
    let parameters: Vec<_> = batch.tensors.iter().map(|one| &one.parameter).collect();
    let scalars = NumbersLaunch::new(lr, beta1, beta2, factor, epsilon, coupled, kept, step.time);
    // SAFETY: parameter and gradient have as many vectors and moments as many words as are stated, and the kernel touches no
    // others.
    unsafe {
        step_packed::launch_unchecked::<R>(
            &parameters[0].client,
            grid.count(parameters[0]),
            cube(),
            addresses(&parameters),
            batch.kind.width,
            tensors.collect(),
            scalars,
            step.rule,
            step.format,
        );
    }
}

#[derive(CubeType, CubeLaunch)]
struct Buffers<N: Size> {
    parameter: Box<[Vector<f32, N>]>,
    gradient: Box<[Vector<f32, N>]>,
    first: Box<[u32]>,
    second: ComptimeOption<Box<[u32]>>,
    vectors: usize,
    /// Words of a moment without scales.
    words: usize,
    first_cube: usize,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Numbers {
    lr: f32,
    beta1: f32,
    beta2: f32,
    factor: f32,
    epsilon: f32,
    coupled: f32,
    kept: f32,
    time: u32,
}

/// The cubes have one tensor after the other.
#[cube(launch_unchecked, address_type = "dynamic")]
fn step_packed<N: Size>(
    mut tensors: Sequence<Buffers<N>>,
    step: Numbers,
    #[comptime] rule: Rule,
    #[comptime] format: Format,
) {
    let count = tensors.len();
    step_among(&mut tensors, &step, 0usize, count, rule, format);
}

/// Takes the step for the cube's tensor, which is among those from `from` to before `to`. A few comparisons find it.
#[cube]
fn step_among<N: Size>(
    tensors: &mut Sequence<Buffers<N>>,
    step: &Numbers,
    #[comptime] from: usize,
    #[comptime] to: usize,
    #[comptime] rule: Rule,
    #[comptime] format: Format,
) {
    if comptime!(to - from == 1) {
        tensors.index_mut(from).step(step, rule, format);
    } else {
        let middle = comptime!((from + to) / 2);
        if CUBE_POS < tensors.index(middle).first_cube {
            step_among(tensors, step, from, middle, rule, format);
        } else {
            step_among(tensors, step, middle, to, rule, format);
        }
    }
}

#[cube]
impl<N: Size> Buffers<N> {
    /// Takes the step for the thread's four elements. All threads of a cube take part, since blocks share a scale.
    fn step(&mut self, step: &Numbers, #[comptime] rule: Rule, #[comptime] format: Format) {
        let place = position(self.first_cube);
        let mut parameter = four(&self.parameter, place, self.vectors);
        let gradient = four(&self.gradient, place, self.vectors);
        let mut first = loaded(&self.first, place, self.words, format, false);
        let mut second = Array::<f32>::new(OF_THREAD);
        #[comptime]
        match &self.second {
            ComptimeOption::Some(words) => second = loaded(words, place, self.words, format, true),
            ComptimeOption::None => {}
        }
        #[unroll]
        for i in 0..OF_THREAD {
            let mut p = parameter[i];
            let mut g = gradient[i];
            let m = first[i];
            match comptime!(rule) {
                Rule::Sgd { nesterov } => {
                    g = p * step.coupled + g;
                    let mut velocity = g * step.factor + m * step.beta1;
                    first[i] = velocity;
                    if comptime!(nesterov) {
                        velocity = velocity * step.beta1 + g;
                    }
                    p -= velocity * step.lr;
                }
                Rule::Adam => {
                    g = p * step.coupled + g;
                    let mean = m * step.beta1 + g * (1.0f32 - step.beta1);
                    let square = second[i] * step.beta2 + g * g * (1.0f32 - step.beta2);
                    first[i] = mean;
                    second[i] = square;
                    p = p * step.kept - mean * step.factor / (square.sqrt() + step.epsilon) * step.lr;
                }
                Rule::Lion => {
                    let direction = m * step.beta1 + g * (1.0f32 - step.beta1);
                    first[i] = m * step.beta2 + g * (1.0f32 - step.beta2);
                    let sign =
                        select(direction > 0.0f32, 1.0f32, select(direction < 0.0f32, -1.0f32, 0.0f32));
                    p = p * step.kept - sign * step.lr;
                }
            }
            parameter[i] = p;
        }
        put_four(&mut self.parameter, &parameter, place, self.vectors);
        stored(&mut self.first, &first, place, self.words, step.time, format, false);
        #[comptime]
        match &mut self.second {
            ComptimeOption::Some(words) => {
                stored(words, &second, place, self.words, step.time, format, true);
            }
            ComptimeOption::None => {}
        }
    }
}

/// The thread's elements; zeros behind the end.
#[cube]
fn four<N: Size>(values: &Box<[Vector<f32, N>]>, place: usize, vectors: usize) -> Array<f32> {
    let size = N::value();
    let count = comptime!(OF_THREAD / size);
    let mut elements = Array::<f32>::new(OF_THREAD);
    #[unroll]
    for index in 0..count {
        let at = place * count + index;
        let mut vector = Vector::<f32, N>::new(0.0f32);
        if at < vectors {
            vector = values[at];
        }
        #[unroll]
        for i in 0..size {
            elements[index * size + i] = vector.extract(i);
        }
    }
    elements
}

/// Writes the thread's elements, none behind the end.
#[cube]
fn put_four<N: Size>(
    values: &mut Box<[Vector<f32, N>]>,
    elements: &Array<f32>,
    place: usize,
    vectors: usize,
) {
    let size = N::value();
    let count = comptime!(OF_THREAD / size);
    #[unroll]
    for index in 0..count {
        let at = place * count + index;
        if at < vectors {
            let mut vector = Vector::<f32, N>::empty();
            #[unroll]
            for i in 0..size {
                vector.insert(i, elements[index * size + i]);
            }
            values[at] = vector;
        }
    }
}

/// The thread's elements of a moment; zeros behind the end.
#[cube]
fn loaded(
    moment: &Box<[u32]>,
    place: usize,
    words: usize,
    #[comptime] format: Format,
    #[comptime] is_square: bool,
) -> Array<f32> {
    let mut elements = Array::<f32>::new(OF_THREAD);
    match comptime!(format) {
        Format::Bf16 =>
        {
            #[unroll]
            for pair in 0..2usize {
                let at = place * 2 + pair;
                let mut word = 0u32;
                if at < words {
                    word = moment[at];
                }
                elements[2 * pair] = f32::reinterpret(word << 16u32);
                elements[2 * pair + 1] = f32::reinterpret(word & 0xffff_0000u32);
            }
        }
        Format::Int8 => {
            let mut codes = 0u32;
            let mut scale = 0.0f32;
            if place < words {
                codes = moment[place];
                scale = f32::reinterpret(moment[words + place / TEAM]);
            }
            #[unroll]
            for i in 0..OF_THREAD {
                let code = (codes >> comptime!(8 * i as u32)) & 0xffu32;
                elements[i] = decoded(code, scale, is_square);
            }
        }
    }
    elements
}

/// Writes the thread's elements of a moment, none behind the end.
#[cube]
fn stored(
    moment: &mut Box<[u32]>,
    elements: &Array<f32>,
    place: usize,
    words: usize,
    time: u32,
    #[comptime] format: Format,
    #[comptime] is_square: bool,
) {
    match comptime!(format) {
        Format::Bf16 => {
            let shift = comptime!(if is_square { 16u32 } else { 0u32 });
            #[unroll]
            for pair in 0..2usize {
                let at = place * 2 + pair;
                let element = (at * 2) as u32;
                let low = rounded(elements[2 * pair], element, time, shift);
                let high = rounded(elements[2 * pair + 1], element + 1u32, time, shift);
                if at < words {
                    moment[at] = low | (high << 16u32);
                }
            }
        }
        Format::Int8 => {
            let mut coded = Array::<f32>::new(OF_THREAD);
            #[unroll]
            for i in 0..OF_THREAD {
                if comptime!(is_square) {
                    coded[i] = elements[i].sqrt();
                } else {
                    coded[i] = elements[i];
                }
            }
            let top = top(is_square);
            let mut scale = team_max(&coded) / top;
            if scale < f32::MIN_POSITIVE {
                scale = 0.0f32;
            }
            let inverse = select(scale == 0.0f32, 0.0f32, 1.0f32 / scale);
            let mut codes = 0u32;
            #[unroll]
            for i in 0..OF_THREAD {
                codes |= encoded(coded[i], inverse, is_square) << comptime!(8 * i as u32);
            }
            if place < words {
                moment[place] = codes;
                if place % TEAM == 0 {
                    moment[words + place / TEAM] = u32::reinterpret(scale);
                }
            }
        }
    }
}

/// The greatest magnitude among the elements of the thread's block; infinite where one is not a number.
#[cube]
fn team_max(elements: &Array<f32>) -> f32 {
    // WGSL has no literal for infinity, and refuses a constant that overflows.
    let infinite = f32::MAX * f32::cast_from(UNIT_POS + 2u32);
    let mut greatest = 0.0f32;
    #[unroll]
    for i in 0..OF_THREAD {
        let magnitude = elements[i].abs();
        greatest = max(greatest, select(magnitude <= f32::MAX, magnitude, infinite));
    }
    let mut of_threads = Shared::<[f32]>::new_slice(THREADS as usize);
    let thread = UNIT_POS as usize;
    // The moment before may have the same memory.
    sync_cube();
    of_threads[thread] = greatest;
    sync_cube();
    let team = thread - thread % TEAM;
    #[unroll]
    for member in 0..TEAM {
        greatest = max(greatest, of_threads[team + member]);
    }
    greatest
}

/// The bf16 of a value, rounded by 16 random bits, in the lower half. Infinity and NaN stay what they are.
#[cube]
fn rounded(value: f32, element: u32, time: u32, shift: u32) -> u32 {
    let bits = u32::reinterpret(value);
    let added = (noise(element, time) >> shift) & 0xffffu32;
    let is_broken = (bits & 0x7f80_0000u32) == 0x7f80_0000u32;
    (bits + select(is_broken, 0u32, added)) >> 16u32
}

/// 32 random bits for an element in a step: those of `oomph_kernels::packed`.
#[cube]
fn noise(element: u32, time: u32) -> u32 {
    let mut bits = (element * 0x9e37_79b9u32) ^ (time * 0x85eb_ca6bu32);
    bits = (bits ^ (bits >> 16u32)) * 0x7feb_352du32;
    bits = (bits ^ (bits >> 15u32)) * 0x846c_a68bu32;
    bits ^ (bits >> 16u32)
}

/// Codes below this one are in the lowest decades.
const FINE: u32 = 8;

/// The value of a code.
#[cube]
fn decoded(code: u32, scale: f32, #[comptime] is_square: bool) -> f32 {
    if comptime!(is_square) {
        let root = value_at(f32::cast_from(code) + 0.5f32, is_square) * scale;
        root * root
    } else {
        let place = code & 0x7fu32;
        let from_end = select(place < FINE, 0.000_976_562_5f32, 0.5f32);
        let magnitude = value_at(f32::cast_from(place) + from_end, is_square) * scale;
        select(code == place, magnitude, -magnitude)
    }
}

/// The code of a value, or of the root of a square.
#[cube]
fn encoded(value: f32, inverse: f32, #[comptime] is_square: bool) -> u32 {
    let most = comptime!(if is_square { 255.0f32 } else { 127.0f32 });
    let mut place = min(position_of(value.abs() * inverse, is_square), most);
    let mut sign = 0u32;
    if comptime!(is_square) {
        place = select(value > 0.0f32, max(place, 1.0f32), place);
    } else {
        sign = select(value < 0.0f32, 0x80u32, 0u32);
    }
    u32::cast_from(place) | sign
}

/// The position of a value from 0 to 1: the least of the lines.
#[cube]
fn position_of(value: f32, #[comptime] is_square: bool) -> f32 {
    let decades = comptime!(decades(is_square));
    // More than any position.
    let mut least = 1e9f32;
    #[unroll]
    for decade in 0..decades {
        let slope = comptime!(slope(decade, decades) as f32);
        let offset = comptime!(offset(decade) as f32);
        least = min(least, value * slope + offset);
    }
    least
}

/// The value at a position: the greatest of the lines' inverses.
#[cube]
fn value_at(position: f32, #[comptime] is_square: bool) -> f32 {
    let decades = comptime!(decades(is_square));
    let mut greatest = 0.0f32;
    #[unroll]
    for decade in 0..decades {
        let inverse = comptime!((1.0 / slope(decade, decades)) as f32);
        let offset = comptime!(offset(decade) as f32);
        greatest = max(greatest, (position - offset) * inverse);
    }
    greatest
}

/// The value of the highest code.
#[cube]
fn top(#[comptime] is_square: bool) -> f32 {
    value_at(comptime!(if is_square { 255.5f32 } else { 127.5f32 }), is_square)
}

fn decades(is_square: bool) -> usize {
    if is_square { 8 } else { 7 }
}

/// 2ⁱ parts of the decade i, which is nine tenths of its upper end.
fn slope(decade: usize, decades: usize) -> f64 {
    2f64.powi(decade as i32) * 10f64.powi((decades - 1 - decade) as i32) / 0.9
}

/// The part at the lower end of the decade i has the position 2ⁱ.
fn offset(decade: usize) -> f64 {
    2f64.powi(decade as i32) * 8.0 / 9.0
}
