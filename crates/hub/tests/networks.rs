//! `config.json` and the settings of `[model]`, both ways, and the messages where they differ.

use std::{fs, path::Path};

use oomph_config::{Config, Entry, Section, Value};
use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_hub::{HubConfig, HubError, assume, config_json};

fn tokens(vocabulary: usize) -> SampleSpec {
    SampleSpec {
        input: InputSpec::Tokens { steps: 7, vocabulary },
        target: TargetSpec::Tokens { steps: 7, vocabulary },
    }
}

fn images(side: usize) -> SampleSpec {
    SampleSpec {
        input: InputSpec::Image { channels: 2, height: side, width: side },
        target: TargetSpec::Class { count: 3 },
    }
}

fn read(text: &str) -> Result<HubConfig, HubError> {
    HubConfig::of_bytes(Path::new("hf/config.json"), text.as_bytes())
}

fn message(text: &str) -> String {
    read(text).err().expect("it is refused").to_string()
}

/// The settings of a file, as lines of TOML.
fn described(text: &str) -> String {
    let config = read(text).unwrap();
    let lines = config.settings().iter().map(|setting| format!("{} = {}", setting.key, setting.value));
    lines.collect::<Vec<_>>().join("\n")
}

/// The resolved entries of `[model]` for these lines.
fn entries(text: &str) -> Vec<Entry> {
    let config = Config::from_toml("x.toml", &format!("[model]\n{text}")).unwrap();
    config.resolved()
}

#[test]
fn the_settings_of_a_gpt_2_are_those_of_a_gpt() {
    let text = r#"{"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_inner": null,
        "n_positions": 32, "layer_norm_epsilon": 1e-05, "activation_function": "gelu", "vocab_size": 101,
        "task_specific_params": {"text-generation": {"n_embd": 5}}, "scale_attn_weights": true}"#;
    assert_eq!(
        described(text),
        "layers = 3\nhidden = 48\nheads = 4\nkey_heads = 4\nfeed_forward = 192\nactivation = \"gelu\"\n\
         epsilon = 1e-5\ncontext = 32\ntied = true\nnorm = \"layer\"\npositions = \"learned\"\nbias = true"
    );
}

#[test]
fn the_settings_of_a_llama_are_read_of_all_versions_of_transformers() {
    let versions = [
        r#""rope_theta": 500000.0, "rope_scaling": null"#,
        r#""rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "head_dim": 12"#,
    ];
    for version in versions {
        let text = format!(
            r#"{{"model_type": "llama", "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", {version}}}"#
        );
        assert_eq!(
            described(&text),
            "layers = 2\nhidden = 48\nheads = 4\nkey_heads = 2\nfeed_forward = 64\nactivation = \"swiglu\"\n\
             bias = false\nepsilon = 1e-6\nrotary_base = 500000.0\ntied = false\nnorm = \"rms\"\npositions = \"rotary\""
        );
    }
    // The first Llamas have no grouped queries.
    let text = r#"{"model_type": "llama", "num_attention_heads": 8}"#;
    assert!(described(text).contains("key_heads = 8\n"));
}

#[test]
fn every_network_decides_the_keys_that_a_stored_configuration_has() {
    for model_type in ["gpt2", "llama", "vit"] {
        let described = described(&format!(r#"{{"model_type": "{model_type}"}}"#));
        for key in [
            "layers",
            "hidden",
            "heads",
            "key_heads",
            "feed_forward",
            "activation",
            "epsilon",
            "norm",
            "bias",
        ] {
            assert!(
                described.lines().any(|line| line.starts_with(&format!("{key} = "))),
                "{model_type}: {key}"
            );
        }
    }
}

#[test]
fn what_oomph_does_not_compute_is_refused_by_key_and_value() {
    for (text, says) in [
        (
            "{}",
            "`model_type` in `hf/config.json` is `not there`; expected a network that oomph has: `gpt2`, `llama`, `vit`",
        ),
        (
            r#"{"model_type": 3}"#,
            "`model_type` in `hf/config.json` is `3`; expected a network that oomph has: `gpt2`, `llama`, `vit`",
        ),
        (
            r#"{"model_type": "gpt2", "n_embd": "a"}"#,
            "`n_embd` in `hf/config.json` is `\"a\"`; expected an integer of at least 0",
        ),
        (
            r#"{"model_type": "gpt2", "n_embd": -1}"#,
            "`n_embd` in `hf/config.json` is `-1`; expected an integer of at least 0",
        ),
        (
            r#"{"model_type": "gpt2", "n_layer": [1]}"#,
            "`n_layer` in `hf/config.json` is `a list or an object`; expected an integer of at least 0",
        ),
        (
            r#"{"model_type": "gpt2", "activation_function": "relu"}"#,
            "`activation_function` in `hf/config.json` is `\"relu\"`; expected `gelu_new` or `gelu_pytorch_tanh` or `gelu_fast` or `gelu`",
        ),
        (
            r#"{"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true}"#,
            "`scale_attn_by_inverse_layer_idx` in `hf/config.json` is `true`; expected `false`, as oomph's `gpt` computes",
        ),
        (
            r#"{"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}"#,
            "`rope_scaling.rope_type` in `hf/config.json` is `\"llama3\"`; expected `default`, as oomph's `gpt` computes",
        ),
        (
            r#"{"model_type": "llama", "attention_bias": true}"#,
            "`mlp_bias` in `hf/config.json` is `false`; expected `true`, as `attention_bias`: oomph has one `model.bias`",
        ),
        (
            r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "head_dim": 32}"#,
            "`head_dim` in `hf/config.json` is `32`; expected `16`, a share of the 64 features for each of 4 heads",
        ),
        (
            r#"{"model_type": "llama", "num_attention_heads": 0, "head_dim": 3}"#,
            "`head_dim` in `hf/config.json` is `3`; expected `0`, a share of the 4096 features for each of 0 heads",
        ),
        (
            r#"{"model_type": "vit", "patch_size": [16, 8]}"#,
            "`patch_size` in `hf/config.json` is `[16, 8]`; expected an integer of at least 0",
        ),
        (
            r#"{"model_type": "vit", "qkv_bias": false}"#,
            "`qkv_bias` in `hf/config.json` is `false`; expected `true`, as oomph's `vit` computes",
        ),
    ] {
        assert_eq!(message(text), says, "{text}");
    }
    assert!(message("[]").starts_with("`hf/config.json` is not the JSON of a network: "));
    assert!(described(r#"{"model_type": "vit", "patch_size": [8, 8]}"#).contains("patch = 8"));
}

#[test]
fn every_difference_is_in_one_message_with_the_arguments_that_agree() {
    let text = r#"{"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 32, "vocab_size": 101,
        "activation_function": "gelu"}"#;
    let network = read(text).unwrap();
    let agreeing = "name = 'gpt'\nlayers = 3\nhidden = 48\nheads = 4\nkey_heads = 4\nfeed_forward = 192\n\
        activation = 'gelu'\nepsilon = 1e-5\ncontext = 32\ntied = true\nnorm = 'layer'\npositions = 'learned'\nbias = true";
    network.check(&entries(agreeing), &tokens(101)).unwrap();
    let other = agreeing
        .replace("layers = 3", "layers = 4")
        .replace("'gelu'", "'swiglu'")
        .replace("context = 32", "");
    let error = network.check(&entries(&other), &tokens(11)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights are of another network: `model.layers` is `4` (x.toml:3), and `n_layer` in `hf/config.json` says `3`; \
         `model.activation` is `swiglu` (x.toml:8), and `activation_function` in `hf/config.json` says `gelu`; \
         `model.context` is not set, and `n_positions` in `hf/config.json` says `32`; \
         the data has 11 tokens, and `vocab_size` in `hf/config.json` says `101`"
    );
    assert_eq!(
        error.hint().unwrap(),
        "use the settings of the file: `--set model.layers=3 --set model.activation=gelu --set model.context=32`"
    );
    // The setting of another model would say nothing more.
    let error = network.check(&entries("name = 'vit'\nlayers = 2"), &images(8)).unwrap_err();
    assert_eq!(error.hint().unwrap(), "use the settings of the file: `--set model.name=gpt`");
}

#[test]
fn the_size_of_images_is_compared() {
    let text = r#"{"model_type": "vit", "image_size": 16, "num_channels": 3}"#;
    let network = read(text).unwrap();
    let own: Vec<String> =
        network.settings().iter().map(|setting| format!("{} = {}", setting.key, setting.value)).collect();
    let error =
        network.check(&entries(&format!("name = 'vit'\n{}", own.join("\n"))), &images(8)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights are of another network: the data has images of 8×8 pixels, and `image_size` in `hf/config.json` says \
         `16×16`; the data has 2 channels, and `num_channels` in `hf/config.json` says `3`"
    );
    assert_eq!(error.hint(), None);
}

const GPT2: &str = "name = 'gpt'\nlayers = 3\nhidden = 48\nheads = 4\nkey_heads = 4\nfeed_forward = 100\n\
    activation = 'gelu-tanh'\nepsilon = 1e-4\ntied = false\nnorm = 'layer'\npositions = 'learned'\nbias = true\ndropout = 0.1";
const LLAMA: &str = "name = 'gpt'\nlayers = 3\nhidden = 48\nheads = 4\nkey_heads = 2\nfeed_forward = 100\n\
    activation = 'swiglu'\nepsilon = 1e-4\ntied = true\nnorm = 'rms'\npositions = 'rotary'\nrotary_base = 500.0\nbias = true";
const VIT: &str = "name = 'vit'\nlayers = 3\nhidden = 48\nheads = 4\nkey_heads = 4\nfeed_forward = 100\n\
    activation = 'gelu-tanh'\nepsilon = 1e-4\nnorm = 'layer'\npatch = 4\nbias = true";

#[test]
fn what_is_written_describes_the_network_that_is_read() {
    for (settings, spec, class) in [
        (GPT2, tokens(101), "GPT2LMHeadModel"),
        (LLAMA, tokens(101), "LlamaForCausalLM"),
        (VIT, images(8), "ViTForImageClassification"),
    ] {
        let written = config_json(&entries(settings), &spec, None).unwrap();
        assert_eq!(written.class, class);
        read(&written.text).unwrap().check(&entries(settings), &spec).unwrap();
    }
    let written = config_json(&entries(GPT2), &tokens(101), None).unwrap().text;
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!((&json["n_positions"], &json["attn_pdrop"]), (&7.into(), &0.1.into()));
    let classes = ["cat".to_owned(), "dog".to_owned()];
    let written = config_json(&entries(VIT), &images(8), Some(&classes)).unwrap().text;
    let json: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(json["id2label"], serde_json::json!({ "0": "cat", "1": "dog", "2": "LABEL_2" }));
    assert_eq!((&json["image_size"], &json["label2id"]["dog"]), (&8.into(), &1.into()));
}

#[test]
fn settings_that_hugging_face_lacks_are_named() {
    let says = |settings: &str, spec: &SampleSpec| {
        config_json(&entries(settings), spec, None).err().expect("it is refused").to_string()
    };
    assert_eq!(
        says(
            &GPT2.replace("key_heads = 4", "key_heads = 2").replace("bias = true", "bias = false"),
            &tokens(9)
        ),
        "Hugging Face's GPT-2 cannot be this network: `model.bias` is `false`, and it has `true`; `model.key_heads` is `2`, \
         and its one `n_head` is `4`"
    );
    assert_eq!(
        says(&LLAMA.replace("'swiglu'", "'gelu'"), &tokens(9)),
        "Hugging Face's Llama cannot be this network: `model.activation` is `gelu`, and it has `swiglu`"
    );
    assert_eq!(
        says(&VIT.replace("'gelu-tanh'", "'swiglu'"), &images(8)),
        "Hugging Face's ViT cannot be this network: `model.activation` is `swiglu`, and it has `gelu` or `gelu-tanh`"
    );
    assert_eq!(
        says("name = 'resnet18'", &images(8)),
        "Hugging Face's layout is known for `gpt` and `vit`, and not for `resnet18`"
    );
}

#[test]
fn a_file_gives_the_defaults_and_other_sources_override_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, r#"{"model_type": "gpt2", "n_embd": 48, "n_layer": 3}"#).unwrap();
    // The folder and its file are the same.
    for named in [folder.path(), &path] {
        let settings = format!("config = '{}'\nlayers = 5", named.display());
        let settings = Section::from_toml("model", &settings).unwrap();
        assume(&settings, "gpt").unwrap();
        assert_eq!(settings.integer("layers", 1, 1..).unwrap(), 5);
        assert_eq!(settings.integer("hidden", 1, 1..).unwrap(), 48);
        let error = settings.integer("heads", 1, 50..).unwrap_err().to_string();
        let origin = format!("{}: n_head: `model.heads` is `12`; ", path.display());
        assert!(error.starts_with(&origin), "{error}");
        let error = assume(&settings, "vit").unwrap_err().to_string();
        assert!(error.ends_with("or of its folder: it is that of a GPT-2, `model.name=gpt`"), "{error}");
    }
    let settings = Section::from_toml("model", "config = 'nowhere'").unwrap();
    let error = assume(&settings, "gpt").unwrap_err().to_string();
    assert!(error.starts_with(
        "model:1: `model.config` is `nowhere`; expected the path of a `config.json` for `model.name=gpt`, "
    ));
    assert_eq!(settings.optional_string("config").unwrap().map(Value::from), Some("nowhere".into()));
}

#[test]
fn a_file_beside_weights_may_be_of_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("model.safetensors");
    let beside = |text: &str| {
        fs::write(folder.path().join("config.json"), text).unwrap();
        HubConfig::beside(&weights)
    };
    assert!(HubConfig::beside(&weights).unwrap().is_none());
    for text in ["", "[1]", r#"{"editor": "dark"}"#] {
        assert!(beside(text).unwrap().is_none(), "{text}");
    }
    assert_eq!(beside(r#"{"model_type": "vit"}"#).unwrap().unwrap().model(), "vit");
    assert!(beside(r#"{"model_type": "mistral"}"#).is_err());
}
