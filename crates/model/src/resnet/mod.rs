//! ResNet-18 to -152 (He et al. 2016, arXiv:1512.03385), exactly as torchvision's: the stride of a bottleneck is in
//! its 3 × 3 convolution ("v1.5").

mod block;
mod ends;
mod settings;

pub use settings::{Depth, ResNet, Stem, resnet, torchvision_name};
