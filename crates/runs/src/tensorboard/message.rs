//! The messages of an event file in the encoding of Protocol Buffers: the few that are needed, by field number, as in
//! TensorFlow's `util/event.proto` and `framework/summary.proto`.

use oomph_protobuf::Encoder;

use super::Histogram;

/// The version that readers know.
const VERSION: &str = "brain.Event:2";
/// `SessionLog.START`.
const START: u64 = 1;

/// What a record of an event file says.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The head of a file.
    Version,
    /// A process begins with this step. What earlier files have of it and later ones does not count any more.
    Start,
    /// Numbers by tag.
    Scalars(Vec<(String, f64)>),
    /// The distribution of a tensor's values.
    Histogram(String, Histogram),
}

impl What {
    /// The record at `wall_time`, in seconds since 1970, after `step` optimizer steps.
    pub(super) fn encode(&self, wall_time: f64, step: usize) -> Vec<u8> {
        let mut event = Encoder::default();
        event.double(1, wall_time);
        // Zero is what a missing number stands for.
        if step > 0 {
            event.integer(2, step as u64);
        }
        match self {
            Self::Version => event.bytes(3, VERSION.as_bytes()),
            Self::Start => event.message(7, |log| log.integer(1, START)),
            Self::Scalars(scalars) => event.message(5, |summary| {
                for (tag, value) in scalars {
                    summary.message(1, |entry| {
                        entry.bytes(1, tag.as_bytes());
                        entry.float(2, *value as f32);
                    });
                }
            }),
            Self::Histogram(tag, histogram) => event.message(5, |summary| {
                summary.message(1, |entry| {
                    entry.bytes(1, tag.as_bytes());
                    entry.message(5, |message| encode_histogram(histogram, message));
                });
            }),
        }
        event.into_bytes()
    }
}

fn encode_histogram(histogram: &Histogram, message: &mut Encoder) {
    let (limits, counts): (Vec<f64>, Vec<f64>) =
        histogram.buckets().map(|(limit, count)| (limit, count as f64)).unzip();
    message.double(1, histogram.min);
    message.double(2, histogram.max);
    message.double(3, histogram.count as f64);
    message.double(4, histogram.sum);
    message.double(5, histogram.sum_of_squares);
    message.doubles(6, &limits);
    message.doubles(7, &counts);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the protobuf library of tensorboard 2.21 writes for the same message.
    #[track_caller]
    fn check(step: usize, what: What, expected: &str) {
        let bytes = what.encode(1.5, step);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn messages_are_those_of_the_protobuf_library() {
        check(300, What::Version, "09000000000000f83f10ac021a0d627261696e2e4576656e743a32");
        check(301, What::Start, "09000000000000f83f10ad023a020801");
        check(
            300,
            What::Scalars(vec![("loss/train".to_owned(), 0.25)]),
            "09000000000000f83f10ac022a130a110a0a6c6f73732f747261696e150000803e",
        );
    }

    #[test]
    fn a_step_of_zero_is_left_out() {
        check(0, What::Version, "09000000000000f83f1a0d627261696e2e4576656e743a32");
    }

    #[test]
    fn a_histogram_has_its_fields_in_order() {
        let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let histogram = Histogram::of(&[-1.0, 2.0, 0.5]).expect("finite values");
        let (limits, counts): (Vec<f64>, Vec<f64>) =
            histogram.buckets().map(|(limit, count)| (limit, count as f64)).unzip();
        let mut encoder = Encoder::default();
        encode_histogram(&histogram, &mut encoder);
        let mut expected = Vec::new();
        for (key, value) in [(0x09, -1.0), (0x11, 2.0), (0x19, 3.0), (0x21, 1.5), (0x29, 5.25)] {
            expected.push(key);
            expected.extend(bytes(&[value]));
        }
        for (field, values) in [(6, limits), (7, counts)] {
            let mut head = Encoder::default();
            head.begin(field, 8 * values.len() as u64);
            expected.extend(head.into_bytes());
            expected.extend(bytes(&values));
        }
        assert_eq!(encoder.into_bytes(), expected);
    }
}
