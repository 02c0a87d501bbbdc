use crate::timeline::Timeline;

/// The content of a timeline's page: one device, or several.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub(super) first: PageDevice<'a>,
    pub(super) others: Vec<PageDevice<'a>>,
}

/// One device of a [`Page`].
#[derive(Clone, Copy, Debug)]
pub struct PageDevice<'a> {
    /// Drawn as areas.
    pub timeline: &'a Timeline,
    /// Drawn over it as a dashed line, such as the plan of a measurement.
    pub overlay: Option<&'a Timeline>,
}

impl<'a> Page<'a> {
    /// A page of `timeline` alone.
    pub fn new(timeline: &'a Timeline) -> Self {
        Self { first: PageDevice { timeline, overlay: None }, others: Vec::new() }
    }

    /// Draws `plan` over the first timeline.
    #[must_use]
    pub fn with_overlay(mut self, plan: &'a Timeline) -> Self {
        self.first.overlay = Some(plan);
        self
    }

    /// Adds a device, whose timeline starts at the same moment.
    #[must_use]
    pub fn and(mut self, timeline: &'a Timeline, overlay: Option<&'a Timeline>) -> Self {
        self.others.push(PageDevice { timeline, overlay });
        self
    }

    /// All devices, in order.
    pub(super) fn devices(&self) -> impl Iterator<Item = &PageDevice<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
