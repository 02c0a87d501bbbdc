use std::{collections::BTreeMap, path::Path};

use oomph_core::{Bytes, Key, SampleSpec, Split, TargetSpec};

use crate::{
    Flaw, FormatProblem, ImageReader, OnCorrupt, OpenContext, Sample, SampleError, Source, Target, Values,
    digest::Digest,
    source::Parts,
    stored::StoredSample,
    transform::{ImageShape, ImageTransform, PixelSums, Statistics, TransformSettings},
};

/// Images in memory, in the layout of their file: the first at byte `first`, the next ones every `stride` bytes.
pub(crate) struct PixelBlock {
    pub(crate) file: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// The images of one part with their classes.
#[derive(Default)]
pub(crate) struct ImagePart {
    blocks: Vec<PixelBlock>,
    /// The index of the first image of each block.
    starts: Vec<usize>,
    pub(crate) classes: Vec<u8>,
    /// The skipped images, by index.
    unusable: BTreeMap<usize, SampleError>,
}

impl ImagePart {
    /// Adds images, each with its class.
    pub(crate) fn push(&mut self, block: PixelBlock, classes: impl IntoIterator<Item = u8>) {
        self.starts.push(self.classes.len());
        self.classes.extend(classes.into_iter().take(block.count));
        self.blocks.push(block);
    }

    /// Adds images with their labels. By the rule, an image with an invalid label is an error or skipped.
    pub(crate) fn push_labelled(
        &mut self,
        block: PixelBlock,
        labels: Labels<'_>,
        rule: LabelRule,
    ) -> Result<(), Flaw> {
        let LabelRule { first, classes, on_corrupt } = rule;
        let start = self.len();
        let class = |label: u8| usize::from(label).checked_sub(first).filter(|class| *class < classes);
        for (index, &label) in labels.labels.iter().enumerate() {
            if class(label).is_some() {
                continue;
            }
            let problem = FormatProblem::Label { label: label.into(), first, classes };
            let flaw = Flaw::new(labels.first_byte + index * labels.stride, problem);
            if on_corrupt == OnCorrupt::Fail {
                return Err(flaw);
            }
            self.unusable.insert(start + index, SampleError::new(labels.file, flaw));
        }
        // Skipped images have no class; any number will do.
        self.push(block, labels.labels.iter().map(|&label| class(label).unwrap_or(0) as u8));
        Ok(())
    }

    fn len(&self) -> usize {
        self.classes.len()
    }

    /// The part itself, if the image at `index` can be used.
    fn usable(&self, index: usize) -> Result<&Self, SampleError> {
        self.unusable.get(&index).cloned().map_or(Ok(self), Err)
    }

    /// The block of an image, and its place in the block.
    fn place(&self, index: usize) -> (&PixelBlock, usize) {
        let block = self.starts.partition_point(|&start| start <= index) - 1;
        (&self.blocks[block], index - self.starts[block])
    }

    pub(crate) fn pixels(&self, index: usize, shape: ImageShape) -> &[u8] {
        let (block, place) = self.place(index);
        &block.bytes[block.first + place * block.stride..][..shape.elements()]
    }

    fn host_bytes(&self) -> Bytes {
        let blocks: usize = self.blocks.iter().map(|block| block.bytes.capacity()).sum();
        Bytes::new((blocks + self.classes.capacity()) as u64)
    }
}

/// Images of one size in memory, in two parts.
pub(crate) struct MemoryImages {
    pub(crate) spec: SampleSpec,
    class_names: Option<Vec<String>>,
    parts: Parts<ImagePart>,
    shape: ImageShape,
    transform: ImageTransform,
    reader: ImageReader,
    /// How the held-out part was chosen.
    held_out: &'static str,
}

/// The classes of images.
pub(crate) struct Classes {
    pub(crate) count: usize,
    pub(crate) names: Option<Vec<String>>,
}

impl MemoryImages {
    /// Images whose pixels go from 0 to `white`.
    pub(crate) fn new(
        parts: Parts<ImagePart>,
        shape: ImageShape,
        white: u8,
        classes: Classes,
        settings: &TransformSettings,
        context: &OpenContext,
    ) -> Self {
        let train = &parts.train;
        let statistics = context.known(&settings.normalize, shape.channels).unwrap_or_else(|| {
            let mut sums = PixelSums::new(shape);
            let usable = (0..train.len()).filter(|index| !train.unusable.contains_key(index));
            usable.for_each(|index| sums.add(train.pixels(index, shape)));
            sums.statistics(white)
        });
        Self {
            spec: SampleSpec { input: shape.into(), target: TargetSpec::Class { count: classes.count } },
            class_names: classes.names,
            transform: ImageTransform::new(shape, settings, &statistics, white),
            reader: ImageReader::new(shape, statistics),
            parts,
            shape,
            held_out: "the test files of the data",
        }
    }

    /// The images with words of their own for how the held-out part was chosen.
    pub(crate) fn with_held_out_origin(self, held_out: &'static str) -> Self {
        Self { held_out, ..self }
    }
}

impl Source for MemoryImages {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    fn image_reader(&self) -> Option<ImageReader> {
        // As image files have.
        matches!(self.shape.channels, 1 | 3).then(|| self.reader.clone())
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.reader.statistics().clone())
    }

    fn digest(&self) -> Option<String> {
        let mut digest = Digest::new();
        for part in [&self.parts.train, &self.parts.test] {
            digest.add(&part.classes);
            part.blocks.iter().for_each(|block| digest.add(&block.bytes));
        }
        Some(digest.finish())
    }

    fn len(&self, split: Split) -> usize {
        self.parts.of(split).len()
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let part = self.parts.of(split).usable(index)?;
        Ok(Sample {
            input: Values::Floats(self.transform.apply(part.pixels(index, self.shape), augment)),
            target: Target::Class(part.classes[index].into()),
        })
    }

    fn class(&self, split: Split, index: usize) -> Result<Option<usize>, SampleError> {
        Ok(Some(self.parts.of(split).usable(index)?.classes[index].into()))
    }

    fn inspect(&self, split: Split, index: usize) -> Result<StoredSample, SampleError> {
        let part = self.parts.of(split).usable(index)?;
        let content = StoredSample::with_content(part.pixels(index, self.shape));
        Ok(StoredSample { image: Some(self.shape), ..content })
    }

    fn held_out_origin(&self) -> Option<String> {
        Some(self.held_out.to_owned())
    }

    fn sample_name(&self, split: Split, index: usize) -> String {
        let (block, place) = self.parts.of(split).place(index);
        format!("image {place} of `{}`", block.file)
    }

    fn host_bytes(&self) -> Bytes {
        self.parts.train.host_bytes() + self.parts.test.host_bytes()
    }
}

/// Labels with their places in a file: the first at `first_byte`, the next ones every `stride` bytes.
pub(crate) struct Labels<'a> {
    /// The name of the file in messages.
    pub(crate) file: &'a str,
    pub(crate) first_byte: usize,
    pub(crate) stride: usize,
    pub(crate) labels: Vec<u8>,
}

/// The valid labels, and the treatment of images with other labels.
#[derive(Clone, Copy)]
pub(crate) struct LabelRule {
    /// The label of the first class.
    pub(crate) first: usize,
    pub(crate) classes: usize,
    pub(crate) on_corrupt: OnCorrupt,
}

/// The name of a file in messages, without its folder.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).display().to_string()
}
