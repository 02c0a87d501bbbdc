use burn::{
    module::{Param, ParamId},
    tensor::{Device, Tensor, TensorData},
};
use oomph_core::{Generator, Key};

/// The device and the random stream of new parameters.
///
/// Initial values are drawn on the host, from a stream named by the seed and the parameter's place in the model. So they
/// are the same on every device and in every process, whatever was drawn before.
#[derive(Clone, Debug)]
pub struct Init {
    device: Device,
    key: Key,
    values: Values,
}

/// What the parameters that would be drawn hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Numbers from the seed.
    Drawn,
    /// Nothing: on a capture device a model takes no memory.
    None,
    /// One zero that all elements share.
    Shared,
}

impl Init {
    /// Parameters on `device`, drawn from `seed`.
    pub fn new(device: &Device, seed: u64) -> Self {
        Self { device: device.clone(), key: Key::new(seed).with_name("init"), values: Values::Drawn }
    }

    /// Parameters with shapes alone, on a capture device.
    pub fn shapes_only(device: &Device) -> Self {
        Self { values: Values::None, ..Self::new(device, 0) }
    }

    /// Parameters that are about to be replaced, all of them: each is a view of one zero, and takes no memory for its
    /// elements.
    pub fn to_be_replaced(device: &Device) -> Self {
        Self { values: Values::Shared, ..Self::new(device, 0) }
    }

    /// The device of the parameters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether values are drawn (else only shapes matter).
    pub fn draws_values(&self) -> bool {
        self.values == Values::Drawn
    }

    /// A seed for Burn's own generator, for layers that initialise themselves.
    pub fn seed(&self) -> u64 {
        Generator::at(self.key.with_name("burn")).bits()
    }

    /// The initialisation of the part of the model named `name`.
    #[must_use]
    pub fn at(&self, name: &str) -> Self {
        Self { key: self.key.with_name(name), ..self.clone() }
    }

    /// A trainable parameter, uniform in [−`bound`, `bound`).
    pub fn uniform<const D: usize>(&self, name: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let bound = bound as f32;
        self.parameter(name, shape, |generator| generator.uniform_in(-bound, bound))
    }

    /// A trainable parameter, normal with mean 0 and the given standard deviation.
    pub fn normal<const D: usize>(&self, name: &str, shape: [usize; D], deviation: f64) -> Param<Tensor<D>> {
        let deviation = deviation as f32;
        self.parameter(name, shape, |generator| generator.normal() * deviation)
    }

    /// A trainable parameter of one value.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f32) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::full(shape, value, &self.device))
    }

    /// A parameter without gradient, of one value: for running statistics.
    pub fn statistic<const D: usize>(&self, shape: [usize; D], value: f32) -> Param<Tensor<D>> {
        let tensor = Tensor::full(shape, value, &self.device).set_require_grad(false);
        Param::initialized(ParamId::new(), tensor)
    }

    fn parameter<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        mut draw: impl FnMut(&mut Generator) -> f32,
    ) -> Param<Tensor<D>> {
        match self.values {
            Values::Drawn => {}
            Values::None => return Param::from_tensor(Tensor::zeros(shape, &self.device)),
            Values::Shared => {
                return Param::from_tensor(Tensor::<D>::zeros([1; D], &self.device).expand(shape));
            }
        }
        let mut generator = Generator::at(self.key.with_name(name));
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| draw(&mut generator)).collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &self.device))
    }
}
