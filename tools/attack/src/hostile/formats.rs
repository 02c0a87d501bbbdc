//! Small valid files of every format that oomph reads. They are made here, by none of oomph's code.

use std::io::{self, Write};

use flate2::{
    Compression, Crc,
    write::{GzEncoder, ZlibEncoder},
};

/// An IDX file of bytes with these dimensions.
pub(crate) fn idx(dimensions: &[u32], values: impl Iterator<Item = u8>) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dimensions.len() as u8];
    bytes.extend(dimensions.iter().flat_map(|dimension| dimension.to_be_bytes()));
    bytes.extend(values.take(dimensions.iter().product::<u32>() as usize));
    bytes
}

/// Bytes packed by gzip.
pub(crate) fn gz(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes)?;
    packed.finish()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A PNG of 8 × 8 pixels in RGB.
pub(crate) fn png(seed: u8) -> io::Result<Vec<u8>> {
    let row = |y: u8| {
        let pixels = (0..8).flat_map(move |x: u8| [seed.wrapping_mul(31), x * 30, y * 30]);
        std::iter::once(0).chain(pixels)
    };
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&(0..8).flat_map(row).collect::<Vec<_>>())?;
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let head = [0, 0, 0, 8, 0, 0, 0, 8, 8, 2, 0, 0, 0];
    for (kind, content) in [(b"IHDR", &head[..]), (b"IDAT", &packed.finish()?), (b"IEND", &[])] {
        let sealed = [kind, content].concat();
        bytes.extend((content.len() as u32).to_be_bytes());
        bytes.extend(&sealed);
        bytes.extend(crc(&sealed).to_be_bytes());
    }
    Ok(bytes)
}

/// A grey JPEG of 8 × 8 pixels of one brightness.
pub(crate) fn jpeg(seed: u8) -> Vec<u8> {
    let mut bytes = b"\xff\xd8\xff\xdb\x00\x43\x00".to_vec();
    bytes.extend([1; 64]);
    bytes.extend(b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00");
    // Two codes of two bits: a difference of 0, or one of four bits.
    bytes.extend(b"\xff\xc4\x00\x15\x00\x00\x02");
    bytes.extend([0; 14]);
    bytes.extend([0, 4]);
    // One code of one bit: the end of the block.
    bytes.extend(b"\xff\xc4\x00\x14\x10\x01");
    bytes.extend([0; 16]);
    bytes.extend(b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00");
    bytes.push(0b0100_0001 | (seed % 16) << 2);
    bytes.extend(b"\xff\xd9");
    bytes
}

/// A tensor: its name, its shape, its values.
pub(crate) type Tensor = (String, Vec<usize>, Vec<f32>);

/// What `torch.save` writes of a state dict: an archive of a pickle and of storages.
pub(crate) fn pth(tensors: &[Tensor]) -> Vec<u8> {
    let mut entries = vec![("archive/data.pkl".to_owned(), pickle(tensors))];
    for (number, (_, _, values)) in tensors.iter().enumerate() {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        entries.push((format!("archive/data/{number}"), bytes));
    }
    entries.push(("archive/version".to_owned(), b"3\n".to_vec()));
    zip(&entries)
}

/// The pickle of a state dict, by protocol 2.
fn pickle(tensors: &[Tensor]) -> Vec<u8> {
    let mut bytes = b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec();
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.push(b'X');
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    let number = |bytes: &mut Vec<u8>, number: usize| {
        bytes.push(b'J');
        bytes.extend((number as u32).to_le_bytes());
    };
    for (place, (name, shape, values)) in tensors.iter().enumerate() {
        text(&mut bytes, name);
        bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut bytes, "storage");
        bytes.extend(b"ctorch\nFloatStorage\n");
        text(&mut bytes, &place.to_string());
        text(&mut bytes, "cpu");
        number(&mut bytes, values.len());
        bytes.extend(b"tQK\x00(");
        shape.iter().for_each(|size| number(&mut bytes, *size));
        bytes.extend(b"t(");
        (1..=shape.len()).for_each(|from| number(&mut bytes, shape[from..].iter().product()));
        bytes.extend(b"t\x89ccollections\nOrderedDict\n)RtR");
    }
    bytes.extend(b"u.");
    bytes
}

/// An archive whose entries are stored as they are.
fn zip(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let offset = bytes.len() as u32;
        let length = (content.len() as u32).to_le_bytes();
        // Version, flags, method, time and date; checksum; packed and plain length; length of the name and of the rest.
        let mut head = vec![10, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        head.extend(crc(content).to_le_bytes());
        head.extend([length, length].concat());
        head.extend((name.len() as u16).to_le_bytes());
        head.extend([0, 0]);
        bytes.extend(b"PK\x03\x04");
        bytes.extend(&head);
        bytes.extend(name.as_bytes());
        bytes.extend(content);
        directory.extend(b"PK\x01\x02\x0a\x00");
        directory.extend(&head);
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (count, start) = ((entries.len() as u16).to_le_bytes(), bytes.len() as u32);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
    bytes.extend([count, count].concat());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}
