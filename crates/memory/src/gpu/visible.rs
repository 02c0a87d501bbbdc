use std::sync::OnceLock;

use super::{
    breakdown::DeviceReading,
    card::{Card, MigInstance},
};

/// The value of CUDA_VISIBLE_DEVICES, read once per process; `None` if it is not set.
pub fn visible_devices() -> Option<&'static str> {
    static VALUE: OnceLock<Option<String>> = OnceLock::new();
    let read = || std::env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned());
    VALUE.get_or_init(read).as_deref()
}

/// A card or MIG instance with its CUDA index: the first is `cuda:0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CudaDevice<'a> {
    /// Its CUDA index.
    pub index: usize,
    /// The card.
    pub card: &'a Card,
    /// The instance, in MIG mode.
    pub instance: Option<&'a MigInstance>,
}

impl<'a> CudaDevice<'a> {
    /// Its memory and processes.
    pub fn reading(&self) -> DeviceReading<'a> {
        self.instance.map_or_else(|| self.card.reading(), MigInstance::reading)
    }
}

/// The devices that a program with this CUDA_VISIBLE_DEVICES sees (`None`: not set), in CUDA's order.
///
/// The rules are CUDA's. Entries are card indices or prefixes of UUIDs (`GPU-…`, `MIG-…`), all of the first entry's kind.
/// An entry that matches no card, or several, ends the list. A card named twice empties it. A program sees one MIG
/// instance at most, and no card beside it.
///
/// `cards` are in the order of PCI addresses, which CUDA uses with `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Otherwise it puts the
/// fastest card first, which matters in a machine with several models. Compare UUIDs to be sure.
pub fn cuda_devices<'a>(cards: &'a [Card], visible: Option<&str>) -> Vec<CudaDevice<'a>> {
    let mut chosen = match visible {
        None => cards.iter().filter_map(whole).collect(),
        Some(list) => named(cards, list),
    };
    if let Some(first) = chosen.iter().position(|(_, instance)| instance.is_some()) {
        chosen = vec![chosen[first]];
    }
    let counted = chosen.into_iter().enumerate();
    counted.map(|(index, (card, instance))| CudaDevice { index, card, instance }).collect()
}

type Choice<'a> = (&'a Card, Option<&'a MigInstance>);

/// The card; in MIG mode its first instance, if any.
fn whole(card: &Card) -> Option<Choice<'_>> {
    if card.mig { Some((card, Some(card.mig_instances.first()?))) } else { Some((card, None)) }
}

fn named<'a>(cards: &'a [Card], list: &str) -> Vec<Choice<'a>> {
    let list = list.trim();
    let find = |entry: &str| match list {
        _ if list.starts_with("GPU-") => by_uuid(cards, entry),
        _ if list.starts_with("MIG-") => by_instance(cards, entry),
        _ => by_index(cards, entry),
    };
    let mut chosen: Vec<Choice<'a>> = Vec::new();
    for choice in list.split(',').map_while(|entry| find(entry.trim())) {
        let same = |(card, instance): &Choice<'a>| uuid(card, *instance) == uuid(choice.0, choice.1);
        if chosen.iter().any(same) {
            return Vec::new();
        }
        chosen.push(choice);
    }
    chosen
}

fn uuid<'a>(card: &'a Card, instance: Option<&'a MigInstance>) -> &'a str {
    instance.map_or(&card.uuid, |instance| &instance.uuid)
}

/// The card of an index. CUDA reads leading digits and ignores the rest.
fn by_index<'a>(cards: &'a [Card], entry: &str) -> Option<Choice<'a>> {
    let entry = entry.strip_prefix('+').unwrap_or(entry);
    let digits = entry.find(|c: char| !c.is_ascii_digit()).unwrap_or(entry.len());
    whole(cards.get(entry[..digits].parse::<usize>().ok()?)?)
}

fn by_uuid<'a>(cards: &'a [Card], entry: &str) -> Option<Choice<'a>> {
    let matching = cards.iter().filter(|card| entry.starts_with("GPU-") && card.uuid.starts_with(entry));
    whole(only(matching)?)
}

fn by_instance<'a>(cards: &'a [Card], entry: &str) -> Option<Choice<'a>> {
    let instances = cards.iter().flat_map(|card| card.mig_instances.iter().map(move |it| (card, it)));
    let (card, instance) =
        only(instances.filter(|(_, it)| entry.starts_with("MIG-") && it.uuid.starts_with(entry)))?;
    Some((card, Some(instance)))
}

/// The item, if it is the only one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(index: u32, uuid: &str, instances: &[&str]) -> Card {
        let instance = |uuid: &&str| MigInstance {
            uuid: (*uuid).to_owned(),
            name: "part".into(),
            memory: None,
            processes: Vec::new(),
        };
        Card {
            index,
            uuid: uuid.to_owned(),
            name: "card".into(),
            pci_bus_id: None,
            minor: Some(index),
            memory: None,
            gpu_utilization_percent: None,
            memory_utilization_percent: None,
            temperature_celsius: None,
            power_watts: None,
            power_limit_watts: None,
            processes: Vec::new(),
            mig_instances: instances.iter().map(instance).collect(),
            mig: !instances.is_empty(),
        }
    }

    fn check(cards: &[Card], visible: Option<&str>, expected: &[&str]) {
        let devices = cuda_devices(cards, visible);
        let uuids: Vec<_> = devices.iter().map(|device| device.reading().uuid).collect();
        assert_eq!(uuids, expected, "{visible:?}");
        assert!(devices.iter().enumerate().all(|(index, device)| device.index == index));
    }

    fn three() -> [Card; 3] {
        [card(0, "GPU-aa1", &[]), card(1, "GPU-aa2", &[]), card(2, "GPU-bb", &[])]
    }

    #[test]
    fn without_the_variable_all_are_seen_and_with_an_empty_one_none() {
        check(&three(), None, &["GPU-aa1", "GPU-aa2", "GPU-bb"]);
        check(&three(), Some(""), &[]);
        check(&three(), Some(" "), &[]);
    }

    #[test]
    fn indices_choose_and_order() {
        check(&three(), Some("2,0"), &["GPU-bb", "GPU-aa1"]);
        check(&three(), Some("2 , 1"), &["GPU-bb", "GPU-aa2"]);
        check(&three(), Some("1gpu2,2ampere"), &["GPU-aa2", "GPU-bb"]);
    }

    #[test]
    fn what_names_no_card_ends_the_list() {
        check(&three(), Some("0,7,1"), &["GPU-aa1"]);
        check(&three(), Some("0,-1,1"), &["GPU-aa1"]);
        check(&three(), Some("-1"), &[]);
        check(&three(), Some("NoDevFiles"), &[]);
        check(&three(), Some("0,GPU-bb"), &["GPU-aa1"]);
        check(&three(), Some("GPU-bb,0"), &["GPU-bb"]);
        check(&three(), Some("0,,1"), &["GPU-aa1"]);
        check(&three(), Some("99999999999999999999"), &[]);
    }

    #[test]
    fn uuids_may_be_shortened_as_long_as_they_are_clear() {
        check(&three(), Some("GPU-b,GPU-aa2"), &["GPU-bb", "GPU-aa2"]);
        check(&three(), Some("GPU-bb,GPU-aa"), &["GPU-bb"]);
        check(&three(), Some("GPU-cc"), &[]);
    }

    #[test]
    fn a_card_named_twice_makes_the_list_empty() {
        check(&three(), Some("0,1,0"), &[]);
        check(&three(), Some("GPU-aa1,GPU-aa1"), &[]);
    }

    #[test]
    fn of_instances_a_program_sees_one() {
        let cards = [card(0, "GPU-a", &["MIG-1", "MIG-2"]), card(1, "GPU-b", &[])];
        check(&cards, None, &["MIG-1"]);
        check(&cards, Some("1,0"), &["MIG-1"]);
        check(&cards, Some("1"), &["GPU-b"]);
        check(&cards, Some("MIG-2"), &["MIG-2"]);
        check(&cards, Some("MIG-2,MIG-1"), &["MIG-2"]);
        check(&cards, Some("GPU-a"), &["MIG-1"]);
    }

    #[test]
    fn a_card_in_mig_mode_without_instances_is_no_device() {
        let mut empty = card(0, "GPU-a", &[]);
        empty.mig = true;
        check(&[empty], None, &[]);
    }
}
