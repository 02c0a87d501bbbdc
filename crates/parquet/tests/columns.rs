//! Columns of files that Apache's crate writes.

mod support;

use std::{ops::ControlFlow, sync::Arc};

use oomph_core::Bytes;
use oomph_parquet::{FileAt, visit};
use parquet::{
    basic::{Compression, Encoding, GzipLevel, ZstdLevel},
    data_type::ByteArrayType,
    file::{properties::WriterVersion, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};

use crate::support::{encoded, properties, read, texts, written};

fn message(bytes: Vec<u8>, column: &str) -> String {
    read(bytes, column, Bytes::mib(64)).expect_err("wrong").to_string()
}

#[test]
fn texts_come_back_in_any_compression_and_encoding() {
    let rows = texts(3_000);
    let expected: Vec<_> = rows.iter().flatten().cloned().collect();
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let of = || properties().set_compression(compression).set_writer_version(version);
            // Small pages, so that there are several.
            for properties in [
                of().set_data_page_size_limit(4_000),
                encoded(of(), Encoding::PLAIN),
                encoded(of(), Encoding::DELTA_LENGTH_BYTE_ARRAY),
            ] {
                let found = read(written(&rows, properties), "text", Bytes::mib(64)).unwrap();
                assert!(found == expected, "{compression} {version:?}");
            }
        }
    }
}

#[test]
fn a_file_is_read_from_the_disk_until_nothing_more_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    std::fs::write(&path, written(&texts(100), properties())).unwrap();
    let file = FileAt::new(std::fs::File::open(&path).unwrap()).unwrap();
    let mut seen = 0;
    visit(file, "text", Bytes::mib(64), &mut |_| {
        seen += 1;
        if seen == 60 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 60);
}

#[test]
fn what_is_wrong_is_named_with_row_group_and_row() {
    let mut rows = texts(10);
    rows[7] = None;
    let nulls = written(&rows, properties());
    assert_eq!(message(nulls.clone(), "text"), "row group 1, row 2: `text` is null; expected a text");
    assert_eq!(message(nulls.clone(), "body"), "there is no column `body`; the columns are `id`, `text`");
    assert_eq!(message(nulls.clone(), "id"), "the column `id` holds INT64; expected texts");
    let error = read(written(&texts(10), properties()), "text", Bytes::new(200)).unwrap_err();
    assert!(error.to_string().starts_with("row group 0, row "), "{error}");
    assert!(error.to_string().ends_with("the texts take more than 200 B"), "{error}");
    let delta = encoded(properties(), Encoding::DELTA_BYTE_ARRAY);
    let error = read(written(&texts(10), delta), "text", Bytes::mib(64)).unwrap_err();
    assert!(
        error.to_string().starts_with("row group 0: the column `text` has the encoding DELTA_BYTE_ARRAY")
    );
    assert!(error.hint().is_some());
    assert!(message(b"PAR1".to_vec(), "text").contains("it does not end with `PAR1`"));
    assert!(message(nulls[4..].to_vec(), "text").contains("it does not begin with `PAR1`"));
    let mut cut = nulls;
    cut.drain(40..60);
    read(cut, "text", Bytes::mib(64)).expect_err("cut");
}

#[test]
fn a_column_within_another_has_a_name_of_both_and_lists_are_refused() {
    let schema = "message rows { required group of { required binary text; } repeated binary tags; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&["one".into(), "two".into()], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&["a".into()], Some(&[1, 0]), Some(&[0, 0])).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let bytes = file.into_inner().unwrap();
    assert_eq!(read(bytes.clone(), "of.text", Bytes::mib(1)).unwrap(), ["one", "two"]);
    assert_eq!(message(bytes, "tags"), "the column `tags` holds lists; expected texts");
}
