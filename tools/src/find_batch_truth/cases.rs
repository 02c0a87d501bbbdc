/// A training and its memory limit.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) config: String,
}

/// All cases: models, sizes of samples, optimizers and limits.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    CASES.lines().map(|line| {
        let mut cells = line.split(" | ");
        let mut next = || cells.next().unwrap_or_default();
        let [name, limit, model, data, optimizer, more] = std::array::from_fn(|_| next());
        let config = format!(
            "model = {{ {model} }}\n\
             data = {{ source = 'synthetic', train_samples = 4096, test_samples = 256, {data} }}\n\
             optimizer = {{ {optimizer} }}\n{more}"
        );
        Case { name, limit, config }
    })
}

/// The name, the limit, `[model]`, `[data]`, `[optimizer]`, and more settings where there are any.
const CASES: &str = "\
resnet18 width 16, 32×32, sgd | 256MiB | name = 'resnet18', stem = 'small', width = 16 | height = 32, width = 32 | name = 'sgd'
resnet18 width 32, 32×32, adam | 512MiB | name = 'resnet18', stem = 'small', width = 32 | height = 32, width = 32 | name = 'adam'
resnet18 width 64, 32×32, momentum | 1GiB | name = 'resnet18', stem = 'small' | height = 32, width = 32 | name = 'sgd', momentum = 0.9
resnet18 width 8, 64×64, sgd | 256MiB | name = 'resnet18', width = 8 | height = 64, width = 64 | name = 'sgd'
resnet18 width 64, 64×64, momentum | 300MiB | name = 'resnet18' | height = 64, width = 64 | name = 'sgd', momentum = 0.9
resnet18 width 64, 64×64, adamw, clipped | 512MiB | name = 'resnet18' | height = 64, width = 64 | name = 'adamw', clip_global_norm = 1.0
resnet34 width 16, 96×96, adagrad | 512MiB | name = 'resnet34', width = 16 | height = 96, width = 96 | name = 'adagrad'
resnet50 width 64, 32×32, sgd | 512MiB | name = 'resnet50' | height = 32, width = 32 | name = 'sgd'
resnet50 width 64, 64×64, momentum | 512MiB | name = 'resnet50' | height = 64, width = 64 | name = 'sgd', momentum = 0.9
resnet50 width 64, 32×32, adan | 1GiB | name = 'resnet50' | height = 32, width = 32 | name = 'adan'
resnet50 width 16, 128×128, rmsprop | 2GiB | name = 'resnet50', width = 16 | height = 128, width = 128 | name = 'rmsprop'
resnet101 width 32, 32×32, adam | 512MiB | name = 'resnet101', width = 32 | height = 32, width = 32 | name = 'adam'
resnet18 width 8, 64×64, large evaluation | 256MiB | name = 'resnet18', width = 8 | height = 64, width = 64 | name = 'sgd' | train = { eval_batch = 256 }
resnet18 width 4, 224×224, momentum | 4GiB | name = 'resnet18', width = 4 | height = 224, width = 224 | name = 'sgd', momentum = 0.9
lstm 128, 32 steps, sgd | 256MiB | name = 'lstm', hidden = 128 | kind = 'sequence', steps = 32, features = 32 | name = 'sgd'
lstm 256, 64 steps, adamw, clipped | 256MiB | name = 'lstm', hidden = 256 | kind = 'sequence', steps = 64, features = 64 | name = 'adamw', clip_global_norm = 1.0
lstm 1536, 4 steps, adam | 256MiB | name = 'lstm', hidden = 1536 | kind = 'sequence', steps = 4, features = 16 | name = 'adam'
lstm 1024, 8 steps, momentum | 256MiB | name = 'lstm', hidden = 1024 | kind = 'sequence', steps = 8, features = 64 | name = 'sgd', momentum = 0.9
2 lstm 128 with dropout, 32 steps, adam | 512MiB | name = 'lstm', hidden = 128, layers = 2, dropout = 0.2 | kind = 'sequence', steps = 32, features = 32 | name = 'adam'
3 lstm 64, 160 steps, adagrad | 256MiB | name = 'lstm', hidden = 64, layers = 3 | kind = 'sequence', steps = 160, features = 16 | name = 'adagrad'
lstm 512, 16 steps, adan | 512MiB | name = 'lstm', hidden = 512 | kind = 'sequence', steps = 16, features = 64 | name = 'adan'
lstm 256, 128 steps, rmsprop | 512MiB | name = 'lstm', hidden = 256 | kind = 'sequence', steps = 128, features = 64 | name = 'rmsprop'";
