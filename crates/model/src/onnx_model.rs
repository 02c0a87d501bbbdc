use oomph_core::{InputSpec, SampleSpec, TargetSpec};
use oomph_onnx::{Element, Graph, Size};

use crate::{Architecture, Init, ModelError, stages::stages_to_onnx, summary::on_capture};

/// The first size of inputs and outputs.
const BATCH: Size = Size::Named("batch");
/// Time steps. Recurrent models take any number of them.
const TIME: Size = Size::Named("time");

/// The model in evaluation mode as an ONNX graph, without allocating its tensors. Parameters have the names of the model tree,
/// as in checkpoints.
///
/// | samples | input | output |
/// |---|---|---|
/// | images | `images` `[batch, C, H, W]` | `logits` `[batch, classes]` |
/// | sequences | `sequences` `[batch, time, features]` | as above |
/// | vectors | `vectors` `[batch, features]` | as above |
/// | tokens | `tokens` `[batch, time]`, 64-bit integers | `logits` `[batch, time, vocabulary]` |
///
/// The output of a regression is called `values`.
///
/// # Errors
/// The model cannot take such samples, or has a stage that [cannot be exported](crate::Stage::to_onnx).
pub fn onnx_graph(architecture: &Architecture, spec: &SampleSpec) -> Result<Graph, ModelError> {
    let built = on_capture(|device| {
        let model = architecture.build(spec, &Init::shapes_only(device))?;
        let mut graph = Graph::new(architecture.name());
        let (name, element, sizes) = input_port(&spec.input);
        let input = graph.input(name, element, sizes);
        let output = stages_to_onnx(&model, &mut graph, input)?;
        let (name, sizes) = output_port(&spec.target);
        graph.output(name, output, sizes);
        Ok(graph)
    });
    built.map(|(graph, _)| graph)
}

fn input_port(spec: &InputSpec) -> (&'static str, Element, Vec<Size>) {
    match *spec {
        InputSpec::Image { channels, height, width } => {
            let sizes = [channels, height, width].map(Size::Fixed);
            ("images", Element::Float, [BATCH].into_iter().chain(sizes).collect())
        }
        InputSpec::Sequence { features, .. } => {
            ("sequences", Element::Float, vec![BATCH, TIME, Size::Fixed(features)])
        }
        InputSpec::Vector { features } => ("vectors", Element::Float, vec![BATCH, Size::Fixed(features)]),
        InputSpec::Tokens { .. } => ("tokens", Element::Int64, vec![BATCH, TIME]),
    }
}

fn output_port(spec: &TargetSpec) -> (&'static str, Vec<Size>) {
    match *spec {
        TargetSpec::Class { count } | TargetSpec::Labels { count } => {
            ("logits", vec![BATCH, Size::Fixed(count)])
        }
        TargetSpec::Values { features } => ("values", vec![BATCH, Size::Fixed(features)]),
        TargetSpec::Tokens { vocabulary, .. } => ("logits", vec![BATCH, TIME, Size::Fixed(vocabulary)]),
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;

    use super::*;
    use crate::{AnyTensor, Pass, Stage, Stages};

    /// A stage of a user, which cannot be exported.
    #[derive(Module, Debug)]
    struct Attention {
        #[module(skip)]
        heads: usize,
    }

    impl Stage for Attention {
        fn forward(&self, input: AnyTensor, _pass: &mut Pass) -> Result<AnyTensor, ModelError> {
            Ok(input)
        }
    }

    #[test]
    fn a_stage_that_cannot_be_exported_is_named() {
        let architecture =
            Architecture::new("mine", |_, _| Ok(Stages::new().with("attention", Attention { heads: 2 })));
        let spec = SampleSpec {
            input: InputSpec::Vector { features: 3 },
            target: TargetSpec::Values { features: 3 },
        };
        let error = onnx_graph(&architecture, &spec).expect_err("no export");
        let says = "stage `attention` (`Attention`) cannot be exported to ONNX: its type does not implement `Stage::to_onnx`";
        assert_eq!(error.to_string(), says);
        assert!(error.hint().is_some_and(|hint| hint.contains("safetensors")));
    }
}
