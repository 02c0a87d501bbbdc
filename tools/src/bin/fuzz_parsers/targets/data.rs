//! Files of data: IDX, CIFAR-10, CSV, texts, vocabularies, images, archives.

use std::{
    fs,
    io::{Cursor, Write as _},
    sync::Arc,
};

use flate2::{Compression, write::GzEncoder};
use image::{ImageFormat, RgbImage};
use oomph_core::Bytes;
use oomph_data::{
    Level, Vocabulary,
    download::Unpack,
    parsers as data,
    tokens::{TokenFile, TokenWriter, Tokenizer, Trainer},
};
use parquet::{
    basic::{Compression as PageCompression, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use tar::{Builder, Header};

use super::{KIB, Target};

pub(super) fn targets() -> Vec<Target> {
    let images = || vec![idx(&[2, 3, 4]), idx(&[3, 2, 2, 3]), idx(&[1, 1, 1])];
    let cifar = |name, parse| packable(name, parse, vec![records(1), records(2)]);
    vec![
        packable("idx images", |bytes| data::idx_images(bytes).is_ok(), images()),
        packable("idx labels", |bytes| data::idx_labels(bytes).is_ok(), vec![idx(&[5]), idx(&[1])]),
        Target {
            finish: |bytes| packed_file(&bytes),
            ..packable("idx packed", |bytes| data::idx_images(bytes).is_ok(), images()).rare(20)
        },
        packable(
            "gzip",
            |bytes| data::idx_images(bytes).is_ok(),
            images().iter().map(|file| packed_file(file)).collect(),
        ),
        cifar("cifar10", |bytes| data::cifar10(bytes, false).is_ok()),
        cifar("cifar10 skipping", |bytes| data::cifar10(bytes, true).is_ok()),
        Target {
            // A name of one byte takes an entry of 24; the list doubles as it grows.
            bound: |bytes| 64 * bytes.len() + 4 * KIB,
            ..Target::new("cifar10 names", |bytes| data::cifar10_names(bytes).is_ok(), vec![NAMES.to_vec()])
        },
        packable("text", |bytes| data::text(bytes).is_ok(), vec!["to be, ō ∀ 𝄞\n".into()]),
        packable("text pieces", |bytes| data::text_pieces(bytes).is_ok(), vec!["to be, ō ∀ 𝄞\n".into()]),
        Target {
            // A document is parsed to an object, and copied.
            bound: |bytes| 128 * bytes.len() + 8 * KIB + packed(bytes),
            ..Target::json("json lines", |bytes| data::json_lines(bytes).is_ok(), vec![LINES.to_vec()])
        },
        parquet(),
        Target {
            // A token is in five tables, and a merge in three.
            bound: |bytes| 512 * bytes.len() + 1024 * KIB,
            ..Target::json("tokenizer", tokenizer, vec![byte_pairs()]).rare(2)
        },
        Target::new("token file", |bytes| TokenFile::check(bytes).is_ok(), vec![token_file()]),
        Target {
            // A token of one byte is in a list, in a table of counts and in one of indices.
            bound: |bytes| 512 * bytes.len() + 4 * KIB,
            ..Target::text("tokens", tokens, &["to be, or not to be\n\nō ∀ 𝄞 that <unk>\n"]).rare(5)
        },
        Target {
            // Each token is in a list and in a map.
            bound: |bytes| 256 * bytes.len() + 4 * KIB,
            ..Target::json(
                "vocabulary",
                |bytes| data::vocabulary(bytes).is_ok(),
                vec![br#"["<unk>","a"," "]"#.to_vec(), vocabulary_in_weights()],
            )
        },
        csv("csv", |bytes| data::csv(bytes, false).is_ok()),
        Target {
            seeds: vec![
                b"file,label\na.jpg,cat\nb.jpg,dog\n".to_vec(),
                b"label,file\n\"a cat\",a b.png\n".to_vec(),
                b"file,label,split\na.jpg,cat|dog,train\nb.jpg,,val\n".to_vec(),
                b"file,cat,dog\na.jpg,1,0\nb.jpg,0,1.0\n".to_vec(),
            ],
            // A column of labels has a name in four lists and in two maps.
            bound: |bytes| 384 * bytes.len() + 8 * KIB + packed(bytes),
            ..csv("labels", |bytes| data::labels(bytes).is_ok())
        },
        csv("csv skipping", |bytes| data::csv(bytes, true).is_ok()),
        Target::json("statistics", data::statistics, vec![STATISTICS.to_vec()]),
        pictures(),
        archive(),
    ]
}

/// A parser of data files, which may be compressed.
fn packable(name: &'static str, parse: fn(&[u8]) -> bool, seeds: Vec<Vec<u8>>) -> Target {
    // The content, which doubles as it grows, and a buffer.
    Target { bound: |bytes| 4 * bytes.len() + 2 * KIB + packed(bytes), ..Target::new(name, parse, seeds) }
}

fn csv(name: &'static str, parse: fn(&[u8]) -> bool) -> Target {
    Target {
        words: &[b",", b"\n", b"\r\n", b"\"", b"\"\"", b"nan", b"inf", b"1e39", b"-0", b"\xef\xbb\xbf"],
        // A column of one byte takes two names of 24, its place and its end; a row of two bytes takes an entry of 32, also a
        // refused one. Vectors double as they grow.
        bound: |bytes| 192 * bytes.len() + 4 * KIB + packed(bytes),
        ..Target::new(name, parse, vec![SERIES.to_vec(), b"a\n1\n2\n3\n4\n".to_vec(), b"a,a\n1,2\n".to_vec()])
    }
}

/// Texts in a column. A page may unpack to the limit of a file, 16 MiB, and a dictionary to as much; a text of 4 bytes takes 32.
fn parquet() -> Target {
    Target {
        bound: |bytes| 256 * bytes.len() + 256 * 1024 * KIB,
        ..Target::new("parquet", |bytes| data::parquet(bytes).is_ok(), parquet_files()).rare(10)
    }
}

/// JPEG and PNG. What they hold is bounded by the decoder's limit, not by the size of the file.
fn pictures() -> Target {
    const DECODER: usize = 256 << 20;
    Target {
        bound: |bytes| 2 * DECODER + 4 * bytes.len() + 4096 * KIB,
        ..Target::new("image", data::image, vec![picture(ImageFormat::Png), picture(ImageFormat::Jpeg)])
            .rare(2)
    }
}

fn picture(format: ImageFormat) -> Vec<u8> {
    let image = RgbImage::from_fn(12, 9, |x, y| image::Rgb([(x * y) as u8, (x * 9) as u8, y as u8]));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).expect("written to memory");
    bytes.into_inner()
}

/// A downloaded archive, packed again after the damage.
fn archive() -> Target {
    let mut builder = Builder::new(Vec::new());
    for (name, content) in [("d/a", &b"alpha"[..]), ("d/b", b"beta"), (&*"long/".repeat(30), b"gamma")] {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, content).expect("written to memory");
    }
    let plain = builder.into_inner().expect("written to memory");
    Target {
        finish: |bytes| packed_file(&bytes),
        bound: |bytes| 64 * KIB + packed(bytes),
        ..Target::new("archive", unpack, vec![plain]).rare(4)
    }
}

thread_local! {
    /// A folder of this thread, in memory where the machine has such a place.
    static FOLDER: tempfile::TempDir = super::machine::folder();
}

fn unpack(bytes: &[u8]) -> bool {
    FOLDER.with(|folder| {
        let archive = folder.path().join("x.tar.gz");
        fs::write(&archive, bytes).expect("a file in a temporary folder");
        let unpack = Unpack { archive: &archive, most_bytes: Bytes::mib(1) };
        unpack.files(&["d/a".to_owned(), "d/b".to_owned()], &folder.path().join("out")).is_ok()
    })
}

/// A text of tokens by both levels: what a vocabulary makes of it.
fn tokens(bytes: &[u8]) -> bool {
    let text = super::lossy(bytes);
    [Level::Char, Level::Word].into_iter().all(|level| {
        let vocabulary = Vocabulary::of(level, level.tokens(&text), 2, 100);
        let indices = vocabulary.encode(&text);
        vocabulary.decode(&indices).len() + vocabulary.unknown_in(&text).len() > 0
    })
}

/// A tokenizer, and what it makes of a text.
fn tokenizer(bytes: &[u8]) -> bool {
    let Ok(tokenizer) = Tokenizer::parse(bytes) else { return false };
    let text = "to be, 한 <|endoftext|>\n";
    tokenizer.decode(&tokenizer.encode(text)) == text
}

/// A small `tokenizer.json`.
fn byte_pairs() -> Vec<u8> {
    let mut trainer = Trainer::new();
    trainer.add(&"to be, or not to be ".repeat(4));
    serde_json::to_vec(&trainer.train(264).tokenizer).expect("written to memory")
}

/// Small files that pyarrow could have written: without compression, and with the two that are usual.
fn parquet_files() -> Vec<Vec<u8>> {
    let schema = parse_message_type("message rows { required int64 id; optional binary text (UTF8); }");
    let schema = Arc::new(schema.expect("a schema"));
    let file = |compression| {
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut file = SerializedFileWriter::new(Vec::new(), schema.clone(), Arc::new(properties))?;
        for texts in [["to be", "or not"], ["to be", "to be"]] {
            let mut group = file.next_row_group()?;
            if let Some(mut column) = group.next_column()? {
                column.typed::<Int64Type>().write_batch(&[1, 2], None, None)?;
                column.close()?;
            }
            if let Some(mut column) = group.next_column()? {
                column.typed::<ByteArrayType>().write_batch(
                    &texts.map(ByteArray::from),
                    Some(&[1, 1]),
                    None,
                )?;
                column.close()?;
            }
            group.close()?;
        }
        file.into_inner()
    };
    let compressions =
        [PageCompression::UNCOMPRESSED, PageCompression::SNAPPY, PageCompression::ZSTD(ZstdLevel::default())];
    compressions.map(|compression| file(compression).expect("written to memory")).into()
}

/// A file of four tokens.
fn token_file() -> Vec<u8> {
    FOLDER.with(|folder| {
        let path = folder.path().join("tokens.bin");
        let tokenizer = Trainer::new().train(257).tokenizer;
        let mut writer =
            TokenWriter::create(&path, &tokenizer, [1; 32]).expect("a file in a temporary folder");
        writer.add_text("to be").expect("a file in a temporary folder");
        writer.finish().expect("a file in a temporary folder");
        fs::read(&path).expect("a file in a temporary folder")
    })
}

/// The header of a file of weights, with the specification of its samples.
fn vocabulary_in_weights() -> Vec<u8> {
    let source = r#"{\"spec\":{\"input\":{\"tokens\":{\"steps\":4,\"vocabulary\":2}},\"target\":{\"tokens\":{\"steps\":4,\"vocabulary\":2}}},\"class_names\":[\"<unk>\",\"a\"],\"level\":\"char\"}"#;
    let header = format!(r#"{{"__metadata__":{{"oomph.source":"{source}"}}}}"#);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

/// The bound added for compressed files: deflate shrinks by at most 1,032, and its decoder takes 64 KiB.
fn packed(bytes: &[u8]) -> usize {
    if bytes.starts_with(&[0x1f, 0x8b]) { 3 * 1032 * bytes.len() + 128 * KIB } else { 0 }
}

fn packed_file(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written to memory");
    encoder.finish().expect("written to memory")
}

/// An IDX file of unsigned bytes with these dimensions.
fn idx(dims: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, dims.len() as u8];
    bytes.extend(dims.iter().flat_map(|dim| dim.to_be_bytes()));
    bytes.extend((0..dims.iter().product()).map(|value: u32| value as u8));
    bytes
}

/// Records of CIFAR-10.
fn records(count: usize) -> Vec<u8> {
    (0..count * 3073).map(|place| (place % 3073 % 10) as u8).collect()
}

const NAMES: &[u8] = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";
const SERIES: &[u8] = b"day,temp,\"rain, mm\"\n1,20.5,0\n2,21e0,1.5\n\n3,\"-4\",2\n";
const LINES: &[u8] = b"{\"text\":\"to be\"}\n\n{\"id\":1,\"text\":\"or \\u0000 not\"}\n";
const STATISTICS: &[u8] = br#"{"fingerprint":"fingerprint","mean":[0.5,0.4,0.25],"std":[0.5,0.25,1.5]}"#;
