//! Writes messages in the encoding of Protocol Buffers (<https://protobuf.dev/programming-guides/encoding/>).
//!
//! [`Encoder`] appends fields by number. Event files of TensorBoard and ONNX models need few messages, whose fields their
//! writers name themselves: there is no compiler and no generated code.
//!
//! ```
//! use oomph_protobuf::Encoder;
//!
//! let mut message = Encoder::default();
//! message.integer(1, 150);
//! message.bytes(2, b"testing");
//! assert_eq!(message.into_bytes(), b"\x08\x96\x01\x12\x07testing");
//! ```
//!
//! It reads no messages.

/// The fields of a message, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Vec<u8>);

/// How the bytes of a field are delimited.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Eight = 1,
    Delimited = 2,
    Four = 5,
}

impl Encoder {
    /// The encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// An integer without a sign.
    pub fn integer(&mut self, field: u64, value: u64) {
        self.key(field, Wire::Varint);
        self.varint(value);
    }

    /// An `int64`: negative numbers take ten bytes.
    pub fn signed(&mut self, field: u64, value: i64) {
        self.integer(field, value as u64);
    }

    /// A `double`.
    pub fn double(&mut self, field: u64, value: f64) {
        self.key(field, Wire::Eight);
        self.0.extend(value.to_le_bytes());
    }

    /// A `float`.
    pub fn float(&mut self, field: u64, value: f32) {
        self.key(field, Wire::Four);
        self.0.extend(value.to_le_bytes());
    }

    /// A string or bytes.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.begin(field, bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// A packed list of `double`.
    pub fn doubles(&mut self, field: u64, values: &[f64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &bytes);
    }

    /// A message within this one.
    pub fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// The head of a field whose `length` bytes the caller writes after this message, as those of large tensors.
    pub fn begin(&mut self, field: u64, length: u64) {
        self.key(field, Wire::Delimited);
        self.varint(length);
    }

    fn key(&mut self, field: u64, wire: Wire) {
        self.varint(field << 3 | wire as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_documentation_says() {
        let mut message = Encoder::default();
        message.message(3, |inner| inner.integer(1, 150));
        message.float(4, 1.0);
        message.double(5, -2.0);
        message.doubles(6, &[0.5]);
        let expected = [
            &[0x1a, 3, 0x08, 0x96, 0x01][..],
            &[0x25, 0, 0, 0x80, 0x3f],
            &[0x29, 0, 0, 0, 0, 0, 0, 0, 0xc0],
            &[0x32, 8, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f],
        ];
        assert_eq!(message.into_bytes(), expected.concat());
    }

    #[test]
    fn a_negative_integer_has_ten_bytes() {
        let mut message = Encoder::default();
        message.signed(1, -2);
        let expected = [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(message.into_bytes(), expected);
    }
}
