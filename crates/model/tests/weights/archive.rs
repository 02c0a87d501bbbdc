//! Writes archives as `torch.save` does, with a given pickle.

/// A zip archive of uncompressed files.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, contents) in files {
        let header = bytes.len() as u32;
        let sizes: Vec<u8> = [contents.len() as u32; 2].iter().flat_map(|size| size.to_le_bytes()).collect();
        let name_length = (name.len() as u16).to_le_bytes();
        let head = [&[0; 2][..], &[0; 2], &[0; 2], &[0; 4], &[0; 4], &sizes, &name_length, &[0; 2]].concat();
        bytes.extend([b"PK\x03\x04", &head[..], name.as_bytes(), contents].concat());
        directory.extend([b"PK\x01\x02\0\0", &head[..], &[0; 2], &[0; 2], &[0; 2], &[0; 4]].concat());
        directory.extend([&header.to_le_bytes()[..], name.as_bytes()].concat());
    }
    let count = (files.len() as u16).to_le_bytes();
    let length = (directory.len() as u32).to_le_bytes();
    let offset = (bytes.len() as u32).to_le_bytes();
    bytes.extend(directory);
    bytes.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &length, &offset, &[0; 2]].concat());
    bytes
}

/// The same with 64-bit sizes and offsets, as in archives above 4 GiB.
pub(crate) fn zip_of_64_bits(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, contents) in files {
        let sizes = [contents.len() as u64, contents.len() as u64, bytes.len() as u64];
        let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        let name_length = (name.len() as u16).to_le_bytes();
        // An unrelated field, then the field of the sizes.
        let extra = [&[9, 9, 2, 0, 7, 7, 1, 0, 24, 0][..], &sizes].concat();
        let extra_length = (extra.len() as u16).to_le_bytes();
        let head = [&[0; 14][..], &[0xff; 8], &name_length, &extra_length].concat();
        bytes.extend([b"PK\x03\x04", &head[..], name.as_bytes(), &extra, contents].concat());
        directory.extend([b"PK\x01\x02\0\0", &head[..], &[0; 10], &[0xff; 4]].concat());
        directory.extend([name.as_bytes(), &extra].concat());
    }
    let count = (files.len() as u64).to_le_bytes();
    let length = (directory.len() as u64).to_le_bytes();
    let offset = (bytes.len() as u64).to_le_bytes();
    bytes.extend(directory);
    let end = (bytes.len() as u64).to_le_bytes();
    bytes.extend(
        [b"PK\x06\x06", &44u64.to_le_bytes()[..], &[0; 12], &count, &count, &length, &offset].concat(),
    );
    bytes.extend([b"PK\x06\x07", &[0; 4][..], &end, &[1, 0, 0, 0]].concat());
    bytes.extend([b"PK\x05\x06", &[0; 4][..], &[0xff; 12], &[0; 2]].concat());
    bytes
}

/// A file of PyTorch with this pickle and one storage, `0`, of 64 bytes.
pub(crate) fn torch(pickle: &[u8]) -> Vec<u8> {
    zip(&[("x/data.pkl", pickle), ("x/byteorder", b"little"), ("x/data/0", &[0; 64]), ("x/version", b"3\n")])
}

/// The pickle of `{name: tensor}`, of float32 in the storage `0`, whose declared size is `elements`.
pub(crate) fn pickle(name: &str, elements: u16, offset: u16, shape: &[u16], strides: &[u16]) -> Vec<u8> {
    let number = |number: u16| [&b"M"[..], &number.to_le_bytes()].concat();
    let tuple = |numbers: &[u16]| {
        let numbers: Vec<u8> = numbers.iter().flat_map(|value| number(*value)).collect();
        [b"(", &numbers[..], b"t"].concat()
    };
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    [
        &b"\x80\x02}"[..],
        &text(name),
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text("0"),
        &text("cpu"),
        &number(elements),
        b"tQ",
        &number(offset),
        &tuple(shape),
        &tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtRs.",
    ]
    .concat()
}
