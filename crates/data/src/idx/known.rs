use crate::download::Remote;

/// The names of the files, the same for all data sets.
const FILES: [&str; 4] = [
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
];

/// A data set that `data.download` can fetch.
#[derive(Debug)]
pub(super) struct KnownImages {
    base: &'static str,
    /// Bytes and SHA-256 of each of [`FILES`], from TensorFlow Datasets.
    files: [(u64, &'static str); 4],
    class_names: [&'static str; 10],
}

pub(super) static MNIST: KnownImages = KnownImages {
    // The mirror that torchvision uses, since the original server no longer answers.
    base: "https://ossci-datasets.s3.amazonaws.com/mnist/",
    files: [
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ],
    class_names: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
};

pub(super) static FASHION_MNIST: KnownImages = KnownImages {
    // The authors' repository, at the commit of the checksums.
    base: "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
    files: [
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ],
    class_names: [
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ],
};

impl KnownImages {
    /// The names of the classes in the order of their labels.
    pub(super) fn class_names(&self) -> Vec<String> {
        self.class_names.map(str::to_owned).to_vec()
    }

    /// The files to download, with their names.
    pub(super) fn files(&self) -> Vec<(&'static str, Remote)> {
        let url = |name: &str| format!("{}{name}", self.base);
        let files = FILES.into_iter().zip(self.files);
        files.map(|(name, (bytes, sha256))| (name, Remote::new(url(name), bytes, sha256))).collect()
    }
}
