use crate::timeline::Timeline;

/// The content of a timeline's page: one device, or several.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// At least one.
    pub(super) devices: Vec<PageDevice<'a>>,
}

/// One device of a [`Page`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PageDevice<'a> {
    /// Drawn as areas.
    pub(super) timeline: &'a Timeline,
    /// Drawn over it as a dashed line, such as the plan of a measurement.
    pub(super) overlay: Option<&'a Timeline>,
}

impl<'a> Page<'a> {
    /// A page of `timeline` alone.
    pub fn new(timeline: &'a Timeline) -> Self {
        Self { devices: vec![PageDevice { timeline, overlay: None }] }
    }

    /// Draws `plan` over the first timeline.
    #[must_use]
    pub fn with_overlay(mut self, plan: &'a Timeline) -> Self {
        self.devices[0].overlay = Some(plan);
        self
    }

    /// Adds a device, whose timeline starts at the same moment.
    #[must_use]
    pub fn and(mut self, timeline: &'a Timeline, overlay: Option<&'a Timeline>) -> Self {
        self.devices.push(PageDevice { timeline, overlay });
        self
    }
}
