//! Tensors that PyTorch's networks store in another form than the model.

use burn::tensor::Device;
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_model::{
    Architecture, Init, Named, Stages, gpt, vit,
    weights::{WeightFile, fit, load, wanted},
};
use safetensors::{Dtype, serialize_to_file, tensor::TensorView};

/// A network, and tensors that PyTorch stores beside its parameters.
struct Case {
    architecture: Architecture,
    spec: SampleSpec,
    prefix: &'static str,
    /// The name and the shape of some tensors in PyTorch.
    shapes: &'static [(&'static str, &'static [usize])],
    buffers: &'static [&'static str],
}

fn cases() -> [Case; 2] {
    let settings = |text: &str| Section::from_toml("model", text).unwrap();
    [
        Case {
            architecture: gpt(&settings("layers = 1\nhidden = 6\nheads = 2")).unwrap(),
            spec: SampleSpec {
                input: InputSpec::Tokens { steps: 5, vocabulary: 7 },
                target: TargetSpec::Tokens { steps: 5, vocabulary: 7 },
            },
            prefix: "transformer.",
            shapes: &[
                ("wte.weight", &[7, 6]),
                ("wpe.weight", &[5, 6]),
                ("h.0.attn.c_attn.weight", &[6, 18]),
                ("h.0.mlp.c_fc.weight", &[6, 24]),
                ("h.0.mlp.c_proj.weight", &[24, 6]),
                ("h.0.ln_1.weight", &[6]),
                ("ln_f.bias", &[6]),
            ],
            buffers: &["h.0.attn.bias", "h.0.attn.masked_bias"],
        },
        Case {
            architecture: vit(&settings("layers = 1\nhidden = 6\nheads = 2\npatch = 4")).unwrap(),
            spec: SampleSpec {
                input: InputSpec::Image { channels: 3, height: 8, width: 4 },
                target: TargetSpec::Class { count: 3 },
            },
            prefix: "",
            shapes: &[
                ("class_token", &[1, 1, 6]),
                ("conv_proj.weight", &[6, 3, 4, 4]),
                ("encoder.pos_embedding", &[1, 3, 6]),
                ("encoder.layers.encoder_layer_0.self_attention.in_proj_weight", &[18, 6]),
                ("encoder.layers.encoder_layer_0.mlp.3.bias", &[6]),
                ("encoder.ln.weight", &[6]),
                ("heads.head.weight", &[3, 6]),
            ],
            buffers: &[],
        },
    ]
}

impl Case {
    fn made(&self, seed: u64) -> Stages {
        self.architecture.build(&self.spec, &Init::new(&Device::flex(), seed)).unwrap()
    }
}

/// The values of all parameters.
fn values(model: &Stages) -> Named<Vec<f32>> {
    let mut values = Named::new();
    model.visit(&mut |info, tensor| _ = values.insert(info.name.to_owned(), tensor.to_host().unwrap()));
    values
}

#[test]
fn weights_in_pytorchs_form_are_those_of_the_model() {
    for case in cases() {
        let (model, architecture) = (case.made(1), &case.architecture);
        let mut tensors: Named<(Vec<usize>, Vec<u8>)> = Named::new();
        model.visit(&mut |info, tensor| {
            let shape = tensor.dims();
            let form = architecture.pytorch_form(info.name, &shape);
            let values = form.to_file(tensor.to_host().unwrap(), &shape);
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            tensors.insert(
                format!("{}{}", case.prefix, architecture.pytorch_name(info.name)),
                (form.shape(&shape), bytes),
            );
        });
        for (name, shape) in case.shapes {
            assert_eq!(tensors[&format!("{}{name}", case.prefix)].0, *shape, "{name}");
        }
        for name in case.buffers {
            tensors.insert(format!("{}{name}", case.prefix), (vec![1], vec![0; 4]));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let views = tensors
            .iter()
            .map(|(name, (shape, bytes))| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
        serialize_to_file(views, None, &path).unwrap();
        let file = WeightFile::open(&path).unwrap();
        let mut other = case.made(2);
        assert_ne!(values(&model), values(&other));
        let fit = fit(&file, architecture, &wanted(&other)).unwrap();
        assert_eq!(fit.notices, [] as [String; 0]);
        load(&mut other, &file, &fit, &Device::flex()).unwrap();
        assert_eq!(values(&model), values(&other));
    }
}
