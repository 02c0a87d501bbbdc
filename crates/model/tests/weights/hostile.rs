//! Hostile files: pickles that call functions, and sizes that are wrong.

use oomph_model::weights::{WeightFile, read_bytes};

use crate::{
    archive::{pickle, torch, zip, zip_of_64_bits},
    golden,
};

fn message(bytes: &[u8]) -> String {
    read_bytes(bytes).expect_err("it is refused").to_string()
}

/// The `pickle.dumps` of an object whose `__reduce__` returns `(os.system, ("touch …",))`.
fn touching(path: &str) -> Vec<u8> {
    let command = format!("touch {path}");
    let length = (command.len() as u32).to_le_bytes();
    [&b"\x80\x02cposix\nsystem\nq\x00X"[..], &length, command.as_bytes(), b"q\x01\x85q\x02Rq\x03."].concat()
}

#[test]
fn a_pickle_that_calls_the_system_is_refused_by_name_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let touched = folder.path().join("touched");
    let bad = touching(&touched.display().to_string());
    let legacy = golden("weights_legacy.pth");
    // After the magic number, instead of the version.
    let behind_magic = [&legacy[..15], &bad].concat();
    for (kind, bytes) in [("archive", torch(&bad)), ("legacy", behind_magic)] {
        let path = folder.path().join(format!("{kind}.pth"));
        std::fs::write(&path, bytes).unwrap();
        let says = WeightFile::open(&path).expect_err("it is refused").to_string();
        assert!(
            says.contains("`posix.system`, which is no part of a state dict; nothing of it was run"),
            "{says}"
        );
    }
    assert!(!touched.exists());
}

#[test]
fn a_whole_module_is_refused_by_the_name_of_its_class() {
    let error = WeightFile::open(&crate::golden_path("weights_module.pth")).unwrap_err();
    assert!(error.to_string().contains("it asks for `torch.nn.modules.linear.Linear`"), "{error}");
    assert!(error.hint().unwrap().contains("torch.save(model.state_dict()"));
}

#[test]
fn a_tensor_beyond_what_is_stored_is_refused() {
    let check = |elements, offset, shape: &[u16], strides: &[u16], fits: bool| {
        let read = read_bytes(&torch(&pickle("a.weight", elements, offset, shape, strides)));
        match read {
            Ok(elements) => assert!(
                fits && elements == shape.iter().map(|size| usize::from(*size)).product::<usize>(),
                "{shape:?}"
            ),
            Err(error) => {
                assert!(!fits, "{error}");
                assert_eq!(error.to_string(), "the tensor `a.weight` is larger than what is stored for it");
            }
        }
    };
    check(16, 0, &[4, 4], &[4, 1], true);
    check(16, 8, &[2, 4], &[1, 2], true);
    // More elements than the file's bytes, than the storage's size, than remain after the offset.
    check(17, 0, &[17], &[1], false);
    check(8, 0, &[4, 4], &[4, 1], false);
    check(16, 9, &[2, 4], &[4, 1], false);
    check(16, 0, &[2, 2], &[60_000, 1], false);
    // 10⁹ elements by a stride of 0.
    check(16, 0, &[32_000, 32_000], &[0, 0], false);
    check(16, 0, &[65_535; 8], &[0; 8], false);
    // More dimensions than a tensor may have.
    let many = torch(&pickle("a", 16, 0, &[1; 9], &[1; 9]));
    assert!(message(&many).contains("expected the parts of a tensor"));
}

#[test]
fn what_is_no_file_of_weights_is_told_apart() {
    let tar = [vec![b'x'; 257], b"ustar".to_vec(), vec![0; 500]].concat();
    let bare = touching("/tmp/x");
    for (bytes, says) in [
        (&b""[..], "it is empty"),
        (b"\x89PNG\r\n\x1a\n", "it is neither safetensors nor a file that `torch.save` wrote"),
        (&tar, "it is a tar archive, which PyTorch wrote before version 0.1.10"),
        (&bare, "it is a pickle that `torch.save` did not write: no tensor's values are in it"),
        (b"PK\x03\x04", "byte 4: it ends within its zip archive"),
        (&[0xff; 7], "it is neither safetensors nor a file that `torch.save` wrote"),
        (b"\x02\0\0\0\0\0\0\0{}", "no error"),
        (b"\x09\0\0\0\0\0\0\0{}", "byte 10: it ends within its header"),
    ] {
        let found = read_bytes(bytes).map_or_else(|error| error.to_string(), |_| "no error".into());
        assert_eq!(found, says, "{bytes:?}");
    }
    let header = br#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 15]].concat();
    assert!(message(&safetensors).ends_with("it ends within its last tensor"));
    let header = br#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,99]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 99]].concat();
    assert!(message(&safetensors).contains("its header is not a safetensors header"));
}

/// Files of an archive by name.
type Files<'a> = &'a [(&'a str, &'a [u8])];

#[test]
fn archives_that_are_not_of_torch_save_are_refused() {
    let cases: [(Files<'_>, &str); 6] = [
        (&[("x/model.json", b"{}")], "`data.pkl` is not in it"),
        (&[("x/data.pkl", b"}."), ("y/data.pkl", b"}.")], "`data.pkl` is not in it"),
        (&[("x/data.pkl", b"}."), ("x/byteorder", b"big")], "highest byte of a number first"),
        (&[("x/data.pkl", b"]."), ("x/byteorder", b"little")], "there is no state dict in it"),
        (&[("x/data.pkl", b"}X\x05\x00\x00\x00epochK\x03s.")], "its keys are `epoch`"),
        (&[("x/data.pkl", &pickle("a", 4, 0, &[4], &[1]))], "`x/data/0` is not in it"),
    ];
    for (files, says) in cases {
        let found = message(&zip(files));
        assert!(found.contains(says), "{found}");
    }
    // The method of the pickle's entry in the directory becomes "deflated".
    let mut compressed = torch(b"}.");
    let entry = compressed.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    compressed[entry + 10] = 8;
    assert_eq!(message(&compressed), "`x/data.pkl` in it is compressed or encrypted");
}

#[test]
fn an_archive_with_sizes_of_64_bits_is_read_and_its_damage_refused() {
    let pickle = pickle("a", 16, 0, &[4, 4], &[4, 1]);
    let bytes = zip_of_64_bits(&[("x/data.pkl", &pickle), ("x/data/0", &[0; 64])]);
    assert_eq!(read_bytes(&bytes).unwrap(), 16);
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        for byte in [0x00, 0xff, 0x80] {
            bytes[at] = byte;
            let _ = read_bytes(&bytes);
        }
    }
}

/// Pickles of 1 MiB, each with as many values as its length allows.
#[test]
fn what_a_pickle_may_make_is_bounded() {
    const LENGTH: usize = 1 << 20;
    let filled = |start: &[u8], repeated: &[u8]| {
        let mut bytes = start.to_vec();
        while bytes.len() < LENGTH {
            bytes.extend(repeated);
        }
        bytes.push(b'.');
        torch(&bytes)
    };
    // Empty tuples, a list appended to itself, nested marks, one tensor many times, one list of pairs many
    // times.
    let tensor = pickle("a", 16, 0, &[1; 8], &[1; 8]);
    let made = &tensor[..tensor.len() - 2];
    for bytes in [
        filled(b"", b")"),
        filled(b"]q\x00", b"h\x00a"),
        filled(b"", b"("),
        filled(&[made, b"q\x00"].concat(), b"h\x00q\x01"),
        filled(b"ccollections\nOrderedDict\nq\x00]q\x01(NN\x86NN\x86e", b"h\x00h\x01\x85R"),
    ] {
        let _ = read_bytes(&bytes);
    }
}

/// A safetensors file of tensors without elements, by these names.
fn empty_tensors(names: impl Iterator<Item = String>) -> Vec<u8> {
    let entry = |name: String| format!(r#""{name}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#);
    let header = format!("{{{}}}", names.map(entry).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat()
}

#[test]
fn names_and_numbers_of_tensors_are_bounded() {
    assert_eq!(
        message(&empty_tensors(std::iter::once("a.".repeat(600) + "x"))),
        "byte 0: more than 1024 bytes in the name of a tensor"
    );
    let many = empty_tensors((0..200_000).map(|index| format!("t{index}")));
    assert_eq!(message(&many), "byte 0: more than 131072 tensors");
    let parts = |count: usize| std::iter::once("a.".repeat(count) + "x");
    assert_eq!(read_bytes(&empty_tensors(parts(500))).unwrap(), 0);
}
