//! What files of weights take, and what frozen stages do not.

use std::fs;

use oomph::{
    Bytes, Config, PlanOptions, Registry,
    engine::record::{model_record, restore_model},
    memory::{Account, charge},
    model::weights::read_bytes,
    plan,
};
use oomph_trainer::{initial_model, open, open_to_plan};

/// The names of the golden files of weights.
fn golden() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("weights_"))
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    assert!(files.len() >= 7, "{files:?}");
    files
}

/// The most that reading these bytes takes.
fn peak(bytes: &[u8]) -> u64 {
    let _alone = crate::alone();
    let before = oomph::memory::read().in_use_bytes.get();
    oomph::memory::restart_peak();
    charge(Account::Device, || drop(read_bytes(bytes)));
    oomph::memory::read().peak_in_use_bytes.get().saturating_sub(before)
}

/// Whatever a file says of itself, it costs no more than its own length, and what a piece of it takes.
#[test]
fn reading_a_file_of_weights_takes_memory_by_its_length() {
    /// Values that a pickle makes of a byte, and what is read at once.
    const BYTES_A_BYTE: u64 = 100;
    const PIECE: u64 = 256 << 10;
    for (name, whole) in golden() {
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            for byte in [0xff, 0x7f, whole[at] ^ 0x10] {
                bytes[at] = byte;
                let peak = peak(&bytes);
                let most = bytes.len() as u64 * BYTES_A_BYTE + PIECE;
                assert!(peak <= most, "{name} with byte {at} = {byte:#x} takes {peak} bytes");
            }
        }
    }
}

#[test]
fn loading_takes_one_tensor_at_a_time_beside_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let config = |weights: &str| {
        let text = format!(
            "model = {{ name = 'resnet18', stem = 'small', width = 32 {weights} }}
             data = {{ source = 'digits', workers = 0 }}"
        );
        open(Config::from_toml("loading", &text).unwrap(), &Registry::builtin()).unwrap()
    };
    let _alone = crate::alone();
    let session = config("");
    let record = model_record(&session.build().unwrap()).unwrap();
    let largest = record.values().map(|tensor| tensor.values.len() * 4).max().unwrap() as u64;
    let all: u64 = record.values().map(|tensor| tensor.values.len() as u64 * 4).sum();
    write(&path, &record);
    drop(record);
    let session = config(&format!(", weights = '{}'", path.display()));
    // All on one account, so that the peak is of both.
    let before = oomph::memory::read();
    oomph::memory::restart_peak();
    let model = charge(Account::Device, || initial_model(&session).unwrap());
    let after = oomph::memory::read();
    drop(model);
    let device = after.peak_in_use_bytes.get() - before.in_use_bytes.get();
    // The drawn model and the next tensor's new values; never a second model.
    assert!(device < all + 2 * largest + (1 << 20), "{device} of {all} and {largest}");
    let host = after.host_bytes.get().saturating_sub(before.host_bytes.get());
    assert!(host < 1 << 20, "{} stay in host memory", Bytes::new(host));
}

/// Neither a drawn model nor a second copy of the record is there while a model is restored.
#[test]
fn restoring_takes_one_tensor_at_a_time_beside_the_record() {
    let text = "model = { name = 'resnet18', stem = 'small', width = 32 }
                data = { source = 'digits', workers = 0 }";
    let _alone = crate::alone();
    let session = open(Config::from_toml("restoring", text).unwrap(), &Registry::builtin()).unwrap();
    // All on one account, so that the peak is of record and model together.
    charge(Account::Device, || {
        let record = model_record(&session.build().unwrap()).unwrap();
        let largest = record.values().map(|tensor| tensor.values.len() * 4).max().unwrap() as u64;
        let all: u64 = record.values().map(|tensor| tensor.values.len() as u64 * 4).sum();
        let before = oomph::memory::read().in_use_bytes.get();
        oomph::memory::restart_peak();
        let mut model = session.build_to_restore().unwrap();
        let empty = oomph::memory::read().peak_in_use_bytes.get() - before;
        assert!(empty < all / 10, "a model without values takes {empty} of {all}");
        let expected = record.clone();
        oomph::memory::restart_peak();
        let with_copy = oomph::memory::read().in_use_bytes.get();
        restore_model(&mut model, record, &session.whole_model_device()).unwrap();
        let restored = oomph::memory::read().peak_in_use_bytes.get() - with_copy;
        assert!(restored < 2 * largest + (1 << 20), "{restored} with a largest tensor of {largest}");
        assert!(model_record(&model).unwrap() == expected, "the values of the record");
        let mut drawn = Vec::new();
        session.build().unwrap().visit(&mut |info, _| drawn.push((info.name.to_owned(), info.trainable)));
        let mut shown = Vec::new();
        model.visit(&mut |info, _| shown.push((info.name.to_owned(), info.trainable)));
        assert_eq!(shown, drawn);
    });
}

fn write(path: &std::path::Path, record: &oomph::model::Named<oomph::engine::HostTensor>) {
    use safetensors::{Dtype, serialize_to_file, tensor::TensorView};
    let bytes = |tensor: &oomph::engine::HostTensor| -> Vec<u8> {
        tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let tensors: Vec<_> =
        record.iter().map(|(name, tensor)| (name, tensor.shape.clone(), bytes(tensor))).collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

/// Activations, gradients and optimizer state of frozen stages are not planned, as they are not there.
#[test]
fn freezing_the_first_stages_is_planned_to_need_less_and_more_of_them_still_less() {
    let _alone = crate::alone();
    let peak = |freeze: &str| {
        let text = format!(
            "model = {{ name = 'resnet50', freeze = {freeze} }}
             data = {{ source = 'synthetic', kind = 'image', height = 64, width = 64, classes = 10 }}
             train = {{ batch = 32 }}
             optimizer = {{ name = 'adam' }}"
        );
        let session =
            open_to_plan(Config::from_toml("freeze", &text).unwrap(), &Registry::builtin()).unwrap();
        plan(&session, PlanOptions::default()).unwrap().peak().categories.total().get()
    };
    let peaks = [
        "[]",
        "['stem']",
        "['stem', 'layer1']",
        "['stem', 'layer1', 'layer2']",
        "['stem', 'layer1', 'layer2', 'layer3', 'layer4']",
    ]
    .map(peak);
    assert!(peaks.is_sorted_by(|more, less| more > less), "{peaks:?}");
    // Nearly everything of a ResNet is before its head.
    assert!(peaks[4] < peaks[0] / 3, "{peaks:?}");
}
