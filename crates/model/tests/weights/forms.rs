//! Tensors that other libraries name, store or divide in another way than the model.

use std::path::Path;

use burn::tensor::Device;
use oomph_config::Section;
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_model::{
    Architecture, Init, Named, Stages, gpt, vit,
    weights::{Fit, Library, TensorPart, WeightFile, WeightsError, fit, load, wanted},
};
use safetensors::{Dtype, serialize_to_file, tensor::TensorView};

/// A network in a layout, and tensors that files have beside its parameters.
struct Case {
    architecture: Architecture,
    library: Library,
    spec: SampleSpec,
    /// What names of a network without its head lack.
    base: &'static str,
    /// The name and the shape of some tensors.
    shapes: &'static [(&'static str, &'static [usize])],
    beside: &'static [&'static str],
}

fn settings(text: &str) -> Section {
    Section::from_toml("model", text).unwrap()
}

fn tokens() -> SampleSpec {
    SampleSpec {
        input: InputSpec::Tokens { steps: 5, vocabulary: 7 },
        target: TargetSpec::Tokens { steps: 5, vocabulary: 7 },
    }
}

fn images() -> SampleSpec {
    SampleSpec {
        input: InputSpec::Image { channels: 3, height: 8, width: 4 },
        target: TargetSpec::Class { count: 3 },
    }
}

const VIT: &str = "layers = 1\nhidden = 6\nheads = 2\npatch = 4";

fn gpt2() -> Case {
    Case {
        architecture: gpt(&settings("layers = 1\nhidden = 6\nheads = 2")).unwrap(),
        library: Library::HuggingFace,
        spec: tokens(),
        base: "transformer.",
        shapes: &[
            ("transformer.wte.weight", &[7, 6]),
            ("transformer.wpe.weight", &[5, 6]),
            ("transformer.h.0.attn.c_attn.weight", &[6, 18]),
            ("transformer.h.0.mlp.c_fc.weight", &[6, 24]),
            ("transformer.h.0.mlp.c_proj.weight", &[24, 6]),
            ("transformer.h.0.ln_1.weight", &[6]),
            ("transformer.ln_f.bias", &[6]),
        ],
        beside: &["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"],
    }
}

fn llama(more: &str) -> Case {
    let text = format!(
        "preset = 'llama'\nlayers = 1\nhidden = 8\nheads = 4\nkey_heads = 2\nfeed_forward = 5\n{more}"
    );
    Case {
        architecture: gpt(&settings(&text)).unwrap(),
        library: Library::HuggingFace,
        spec: tokens(),
        base: "model.",
        shapes: &[
            ("model.embed_tokens.weight", &[7, 8]),
            ("model.layers.0.input_layernorm.weight", &[8]),
            ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
            ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
            ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
            ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
            ("model.layers.0.post_attention_layernorm.weight", &[8]),
            ("model.layers.0.mlp.gate_proj.weight", &[5, 8]),
            ("model.layers.0.mlp.up_proj.weight", &[5, 8]),
            ("model.layers.0.mlp.down_proj.weight", &[8, 5]),
            ("model.norm.weight", &[8]),
        ],
        beside: &["model.layers.0.self_attn.rotary_emb.inv_freq"],
    }
}

fn torchvision() -> Case {
    Case {
        architecture: vit(&settings(VIT)).unwrap(),
        library: Library::PyTorch,
        spec: images(),
        base: "",
        shapes: &[
            ("class_token", &[1, 1, 6]),
            ("conv_proj.weight", &[6, 3, 4, 4]),
            ("encoder.pos_embedding", &[1, 3, 6]),
            ("encoder.layers.encoder_layer_0.self_attention.in_proj_weight", &[18, 6]),
            ("encoder.layers.encoder_layer_0.mlp.3.bias", &[6]),
            ("encoder.ln.weight", &[6]),
            ("heads.head.weight", &[3, 6]),
        ],
        beside: &[],
    }
}

fn hugging_face_vit() -> Case {
    Case {
        library: Library::HuggingFace,
        base: "vit.",
        shapes: &[
            ("vit.embeddings.cls_token", &[1, 1, 6]),
            ("vit.embeddings.position_embeddings", &[1, 3, 6]),
            ("vit.embeddings.patch_embeddings.projection.weight", &[6, 3, 4, 4]),
            ("vit.encoder.layer.0.layernorm_before.weight", &[6]),
            ("vit.encoder.layer.0.attention.attention.query.weight", &[6, 6]),
            ("vit.encoder.layer.0.attention.attention.key.bias", &[6]),
            ("vit.encoder.layer.0.attention.attention.value.weight", &[6, 6]),
            ("vit.encoder.layer.0.attention.output.dense.weight", &[6, 6]),
            ("vit.encoder.layer.0.layernorm_after.bias", &[6]),
            ("vit.encoder.layer.0.intermediate.dense.weight", &[24, 6]),
            ("vit.encoder.layer.0.output.dense.weight", &[6, 24]),
            ("vit.layernorm.weight", &[6]),
            ("classifier.weight", &[3, 6]),
        ],
        beside: &["vit.pooler.dense.weight", "vit.embeddings.mask_token"],
        ..torchvision()
    }
}

fn cases() -> [Case; 6] {
    let biased = Case { beside: &[], ..llama("bias = true\ntied = true") };
    let untied = llama("");
    [gpt2(), untied, biased, torchvision(), hugging_face_vit(), llama("tied = true")]
}

type Tensors = Named<(Vec<usize>, Vec<u8>)>;

impl Case {
    fn made(&self, seed: u64) -> Stages {
        self.architecture.build(&self.spec, &Init::new(&Device::flex(), seed)).unwrap()
    }

    /// The tensors of a file of the model.
    fn tensors(&self, model: &Stages) -> Tensors {
        let layout = self.architecture.layout(self.library).unwrap();
        let mut tensors = Tensors::new();
        model.visit(&mut |info, tensor| {
            let shape = tensor.dims();
            let mut values = tensor.to_host().unwrap();
            for TensorPart { name, shape, form } in layout.parts(info.name, &shape) {
                let rest = values.split_off(shape.iter().product());
                let stored = form.to_file(std::mem::replace(&mut values, rest), &shape);
                let bytes = stored.iter().flat_map(|value| value.to_le_bytes()).collect();
                tensors.insert(name, (form.shape(&shape), bytes));
            }
            assert!(values.is_empty(), "{}", info.name);
        });
        tensors
    }

    /// Loads a file of these tensors into a model that was made from another seed.
    fn loaded(&self, tensors: &Tensors) -> Result<(Stages, Fit), WeightsError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        write(&path, tensors);
        let file = WeightFile::open(&path)?;
        let mut other = self.made(2);
        let fit = fit(&file, &self.architecture, &wanted(&other))?;
        load(&mut other, &file, &fit, &Device::flex())?;
        Ok((other, fit))
    }
}

fn write(path: &Path, tensors: &Tensors) {
    let views = tensors
        .iter()
        .map(|(name, (shape, bytes))| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

/// The values of all parameters.
fn values(model: &Stages) -> Named<Vec<f32>> {
    let mut values = Named::new();
    model.visit(&mut |info, tensor| _ = values.insert(info.name.to_owned(), tensor.to_host().unwrap()));
    values
}

#[test]
fn weights_in_the_layout_of_a_library_are_those_of_the_model() {
    for case in cases() {
        let model = case.made(1);
        let mut tensors = case.tensors(&model);
        for (name, shape) in case.shapes {
            assert_eq!(tensors[*name].0, *shape, "{name}");
        }
        for name in case.beside {
            tensors.insert((*name).into(), (vec![1], vec![0; 4]));
        }
        // A wrapper such as PyTorch's for several GPUs, and a network without its head.
        let wrapped =
            tensors.iter().map(|(name, tensor)| (format!("module.{name}"), tensor.clone())).collect();
        let bare = |name: &str| name.strip_prefix(case.base).unwrap_or(name).to_owned();
        let bare = tensors.iter().map(|(name, tensor)| (bare(name), tensor.clone())).collect();
        for tensors in [tensors, wrapped, bare] {
            assert_ne!(values(&model), values(&case.made(2)));
            let (loaded, fit) = case.loaded(&tensors).unwrap();
            assert_eq!(fit.notices, [] as [String; 0]);
            assert_eq!(values(&model), values(&loaded));
        }
    }
}

#[test]
fn a_tensor_that_is_missing_or_of_another_shape_is_named_as_the_file_does() {
    let case = llama("");
    let mut tensors = case.tensors(&case.made(1));
    tensors.remove("model.layers.0.self_attn.k_proj.weight");
    tensors.insert("model.layers.0.mlp.gate_proj.weight".into(), (vec![4, 8], vec![0; 4 * 4 * 8]));
    tensors.insert("model.layers.0.self_attn.q_proj.bias".into(), (vec![8], vec![0; 4 * 8]));
    let error = case.loaded(&tensors).expect_err("it does not fit").to_string();
    let (_, says) = error.split_once("do not fit the model `gpt`: ").unwrap();
    assert_eq!(
        says,
        "missing: `model.layers.0.self_attn.k_proj.weight`; unexpected: `model.layers.0.self_attn.q_proj.bias`; \
         `model.layers.0.mlp.gate_proj.weight` is [4, 8] in the file and [5, 8] in the model"
    );
}

#[test]
fn a_second_copy_of_a_tied_matrix_must_be_equal() {
    let case = llama("tied = true");
    let mut tensors = case.tensors(&case.made(1));
    let matrix = tensors["model.embed_tokens.weight"].clone();
    tensors.insert("lm_head.weight".into(), matrix);
    case.loaded(&tensors).unwrap();
    tensors.insert("lm_head.weight".into(), (vec![7, 8], vec![0; 4 * 7 * 8]));
    let error = case.loaded(&tensors).expect_err("they differ");
    assert!(matches!(error, WeightsError::NotTied { .. }), "{error}");
}

#[test]
fn a_vit_without_its_classifier_keeps_a_new_one() {
    let case = hugging_face_vit();
    let mut tensors = case.tensors(&case.made(1));
    tensors.retain(|name, _| !name.starts_with("classifier."));
    let mut bare: Tensors = tensors
        .into_iter()
        .map(|(name, tensor)| (name.trim_start_matches("vit.").to_owned(), tensor))
        .collect();
    bare.insert("pooler.dense.weight".into(), (vec![6, 6], vec![0; 4 * 36]));
    let (_, fit) = case.loaded(&bare).unwrap();
    assert_eq!(fit.fresh, ["head.fc.weight", "head.fc.bias"]);
    assert!(
        fit.notices[0].ends_with("have no head (`classifier.weight`, `classifier.bias`): it starts new"),
        "{fit:?}"
    );
}

#[test]
fn a_llama_without_its_head_is_an_error() {
    let case = llama("");
    for name in ["lm_head.weight", "model.norm.weight"] {
        let mut tensors = case.tensors(&case.made(1));
        tensors.remove(name);
        let error = case.loaded(&tensors).expect_err("a part is missing").to_string();
        assert!(error.ends_with(&format!("missing: `{name}`")), "{error}");
    }
}

#[test]
fn the_weights_of_a_folder_are_in_one_file_or_in_several() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let open = || WeightFile::open(folder.path());
    let says = || {
        let error = open().expect_err("no weights");
        let says = format!("{error}; {}", error.hint().unwrap());
        says.replace(&*folder.path().to_string_lossy(), "DIR")
    };
    assert_eq!(
        says(),
        "there are no weights in the folder `DIR`: expected `model.safetensors`; name the file itself"
    );
    let case = gpt2();
    let whole = case.tensors(&case.made(1));
    let (mut first, mut second) = (whole.clone(), whole.clone());
    first.retain(|name, _| name.contains(".h."));
    second.retain(|name, _| !name.contains(".h."));
    write(&at("model-00001-of-00002.safetensors"), &first);
    assert_eq!(
        says(),
        "the weights in the folder `DIR` are in 2 files, and 1 are there; copy or download the folder again: it is not whole"
    );
    write(&at("model-00002-of-00002.safetensors"), &second);
    let file = open().unwrap();
    assert_eq!((file.files().count(), file.tensors().count()), (2, whole.len()));
    let mut other = case.made(2);
    let fit = fit(&file, &case.architecture, &wanted(&other)).unwrap();
    load(&mut other, &file, &fit, &Device::flex()).unwrap();
    assert_eq!(values(&other), values(&case.made(1)));
    write(&at("model-00001-of-00003.safetensors"), &first);
    assert!(says().contains("are in 2 files, and 3 are there"));
    write(&at("model.safetensors"), &whole);
    assert_eq!(open().unwrap().files().collect::<Vec<_>>(), [at("model.safetensors")]);
}
