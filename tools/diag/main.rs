//! temporary
use oomph_config::Config;
use oomph_memory::*;
use oomph_trainer::*;
oomph_memory::install_meter!();
fn show(t: &Timeline) {
    let levels = t.levels();
    for s in &t.spans { if s.kind == SpanKind::Stage { continue } 
        let p = t.peak_within(s.start..s.end);
        println!("{:?} {} {}..{} peak {} {:?}", s.kind, t.names.text(s.name), s.start, s.end, p.categories.total().get(), p.categories);
    }
    let p = t.peak();
    println!("PEAK {} at {} of {}", p.categories.total().get(), p.event, levels.len());
    for b in p.blocks.iter().take(16) { let b=&t.blocks[*b]; println!("   {:>12} {:?} {} | {} | {} {:?} born {} died {:?} {:?}", b.bytes, b.category, t.names.text(b.operation), t.names.text(b.scope), t.names.text(b.tensor), b.shape, b.born, b.died, b.phase); }
    let small: u64 = p.blocks.iter().map(|b| &t.blocks[*b]).filter(|b| b.bytes < 1024).map(|b| b.bytes).sum();
    println!("   blocks {} small sum {}", p.blocks.len(), small);
}
fn main() {
    if std::env::args().nth(1).unwrap() == "op" {
        use burn::tensor::{Tensor, Device};
        let d = Device::flex();
        compute_threads(None).unwrap();
        charge(Account::Device, || {
            let flat: Tensor<2> = Tensor::ones([8192, 128], &d);
            let w: Tensor<2> = Tensor::ones([1024, 128], &d);
            let b: Tensor<1> = Tensor::ones([1024], &d);
            let at = |n: &str| { println!("{n}: in use {} peak {}", read().in_use_bytes, read().peak_in_use_bytes); restart_peak(); };
            at("start");
            let p = flat.clone().matmul(w.clone().transpose()); at("matmul");
            let bias: Tensor<2> = b.unsqueeze(); at("unsqueeze");
            let q = p + bias; at("add");
            let r: Tensor<3> = q.reshape([128, 64, 1024]); at("reshape");
            let v = r.split(1, 1); at("split");
            drop(v);
        });
        return;
    }
    let text = std::env::args().nth(1).unwrap();
    let session = Session::open(Config::from_toml("x", &text).unwrap(), &Registry::builtin()).unwrap_or_else(|e| panic!("{e}"));
    if std::env::args().nth(2).is_some() {
        let p = plan(&session, PlanOptions::default()).unwrap();
        let step = p.spans_of(SpanKind::Step).find(|s| p.names.text(s.name) == "evaluation").unwrap().clone();
        let peak = p.peak_within(step.start..step.end);
        println!("planned eval {}", peak.categories.total().get());
        for b in peak.blocks.iter().take(16) { let b=&p.blocks[*b]; println!("   {:>12} {:?} {} | {} | {} {:?} born {} died {:?} {:?}", b.bytes, b.category, p.names.text(b.operation), p.names.text(b.scope), p.names.text(b.tensor), b.shape, b.born, b.died, b.phase); }
        let t = charge(Account::Device, || {
            record::start(2_000_000);
            let mut stepper = Stepper::new(&session).unwrap();
            let mut loader = charge(Account::Host, || oomph_data::Loader::start(session.source.clone(), oomph_core::Split::Train, session.train_order(), 0, 0, Some(1), &session.loader));
            for step in 0..3 { let b = charge(Account::Host, || loader.next()).unwrap().unwrap(); record::mark_step(step, record::StepKind::Train); stepper.step(b, step as usize, 0.01, session.task.as_ref()).unwrap(); }
            record::mark_step(9, record::StepKind::Eval);
            evaluate(&session, &stepper.model, &mut Quiet, &Stop::new()).unwrap();
            record::dump().timeline(&record::Notes::default())
        });
        println!("== measured eval"); show(&t);
        return;
    }
    let p = profile(&session, ProfileOptions{warmup:0, steps:3, ..Default::default()}, &mut Quiet).unwrap();
    println!("== planned"); show(&p.planned);
    { let t=&p.measured; let mut h = std::collections::BTreeMap::new(); for b in &t.blocks { *h.entry((b.phase.name(), b.category.key(), if b.bytes < 4096 { b.bytes } else { 999999 })).or_insert(0usize) += 1; }
      let mut v: Vec<_> = h.into_iter().collect(); v.sort_by_key(|x| std::cmp::Reverse(x.1)); for x in v.iter().take(40) { println!("{x:?}"); } }
    println!("== measured {:?}", p.step_seconds); show(&p.measured);
}
