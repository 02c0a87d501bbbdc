//! Files that Apache's crate writes.

use std::{ops::ControlFlow, sync::Arc};

use oomph_core::Bytes;
use oomph_parquet::{ColumnError, visit};
use parquet::{
    basic::Encoding,
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{
        properties::{WriterProperties, WriterPropertiesBuilder},
        writer::SerializedFileWriter,
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

const SCHEMA: &str = "message rows { required int64 id; optional binary text (UTF8); }";

/// A file with these texts in two row groups.
pub(crate) fn written(texts: &[Option<String>], properties: WriterPropertiesBuilder) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).unwrap();
    for rows in texts.chunks(texts.len().div_ceil(2).max(1)) {
        let mut group = file.next_row_group().unwrap();
        let ids: Vec<_> = (0..rows.len() as i64).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
        column.close().unwrap();
        let levels: Vec<_> = rows.iter().map(|text| i16::from(text.is_some())).collect();
        let values: Vec<_> = rows.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

pub(crate) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
}

pub(crate) fn texts(count: usize) -> Vec<Option<String>> {
    (0..count).map(|row| Some(format!("한 {row} {}", "to be, or not ".repeat(row % 7)))).collect()
}

pub(crate) fn read(bytes: Vec<u8>, column: &str, limit: Bytes) -> Result<Vec<String>, ColumnError> {
    let mut found = Vec::new();
    visit(bytes, column, limit, &mut |text| {
        found.push(text.to_owned());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Without a dictionary, in this encoding.
pub(crate) fn encoded(properties: WriterPropertiesBuilder, encoding: Encoding) -> WriterPropertiesBuilder {
    let text = || ColumnPath::from("text");
    properties.set_column_dictionary_enabled(text(), false).set_column_encoding(text(), encoding)
}
