use super::Check;
use crate::gpu::{Card, cuda_devices};

const NAME: &str = "CUDA_VISIBLE_DEVICES";

/// What the variable lets a program see of the cards (`None`: it is not set).
pub fn visible_devices(cards: &[Card], variable: Option<&str>) -> Check {
    let seen = cuda_devices(cards, variable).len();
    let Some(text) = variable else {
        return Check::ok(NAME, format!("not set: {}", counted(seen)));
    };
    if text.trim().is_empty() {
        return Check::problem(
            NAME,
            "set and empty: every GPU is hidden",
            "unset it, or name GPUs as in `0,1`",
        );
    }
    let entries: Vec<&str> = text.split(',').map(str::trim).collect();
    let hint = "cards are named by their index or UUID, as `oomph monitor` and `nvidia-smi -L` show them; what names \
                none ends the list, and a card named twice makes it empty";
    match entries.get(seen) {
        _ if seen == 0 => {
            let finding = format!("`{text}` shows none of {}", counted(cards.len()));
            Check::problem(NAME, finding, hint)
        }
        Some(entry) if cards.iter().any(|card| card.mig) => Check::warning(
            NAME,
            format!("`{text}`: of MIG instances a program sees one, so not `{entry}`"),
            hint,
        ),
        Some(entry) => {
            let finding = format!("`{text}` shows {}: `{entry}` names no card", counted(seen));
            Check::warning(NAME, finding, hint)
        }
        None => Check::ok(NAME, format!("`{text}`: {}", counted(seen))),
    }
}

fn counted(gpus: usize) -> String {
    match gpus {
        1 => "1 GPU".to_owned(),
        _ => format!("{gpus} GPUs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{State, gpu::tests::card, tree::told};

    #[test]
    fn what_is_seen_is_counted() {
        let cards = [card(0), card(1)];
        let check = |variable| visible_devices(&cards, variable);
        assert_eq!(told(&check(None)), (State::Ok, "not set: 2 GPUs"));
        assert_eq!(told(&check(Some("1"))), (State::Ok, "`1`: 1 GPU"));
        assert_eq!(told(&check(Some(" "))), (State::Problem, "set and empty: every GPU is hidden"));
        assert_eq!(told(&check(Some("7"))), (State::Problem, "`7` shows none of 2 GPUs"));
        assert_eq!(told(&check(Some("0,0"))), (State::Problem, "`0,0` shows none of 2 GPUs"));
        assert_eq!(told(&check(Some("1,7,0"))), (State::Warning, "`1,7,0` shows 1 GPU: `7` names no card"));
    }
}
