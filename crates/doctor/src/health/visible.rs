use crate::check::Check;
use oomph_memory::gpu::{Card, cuda_devices};

const NAME: &str = "CUDA_VISIBLE_DEVICES";

/// Checks which of the cards the variable shows to a program (`None`: it is not set).
pub fn visible_devices(cards: &[Card], variable: Option<&str>) -> Check {
    let seen = cuda_devices(cards, variable).len();
    let Some(text) = variable else {
        return Check::ok(NAME, format!("not set: {}", counted(seen)));
    };
    if text.trim().is_empty() {
        return Check::problem(NAME, "empty, which hides every GPU", "unset it, or name GPUs as in `0,1`");
    }
    let entries: Vec<&str> = text.split(',').map(str::trim).collect();
    let hint = "name cards by index or UUID, as `oomph monitor` and `nvidia-smi -L` show them; an entry without a \
                card ends the list, and a duplicate empties it";
    match entries.get(seen) {
        _ if seen == 0 => {
            let finding = format!("`{text}` shows none of {}", counted(cards.len()));
            Check::problem(NAME, finding, hint)
        }
        Some(entry) if cards.iter().any(|card| card.mig) => Check::warning(
            NAME,
            format!("`{text}`: a program sees only one MIG instance, so `{entry}` is hidden"),
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
    if gpus == 1 { "1 GPU".to_owned() } else { format!("{gpus} GPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::{gpu::tests::card, tree::state_and_finding},
    };

    #[test]
    fn what_is_seen_is_counted() {
        let cards = [card(0), card(1)];
        let check = |variable| visible_devices(&cards, variable);
        assert_eq!(state_and_finding(&check(None)), (CheckState::Ok, "not set: 2 GPUs"));
        assert_eq!(state_and_finding(&check(Some("1"))), (CheckState::Ok, "`1`: 1 GPU"));
        assert_eq!(
            state_and_finding(&check(Some(" "))),
            (CheckState::Problem, "empty, which hides every GPU")
        );
        assert_eq!(state_and_finding(&check(Some("7"))), (CheckState::Problem, "`7` shows none of 2 GPUs"));
        assert_eq!(
            state_and_finding(&check(Some("0,0"))),
            (CheckState::Problem, "`0,0` shows none of 2 GPUs")
        );
        assert_eq!(
            state_and_finding(&check(Some("1,7,0"))),
            (CheckState::Warning, "`1,7,0` shows 1 GPU: `7` names no card")
        );
    }
}
