// Buttons and tips.

// A group of buttons with one pressed.
function choice(id, value, act) {
  const group = byId(id);
  if (!group) return;
  const press = (value) => {
    for (const button of group.children) button.setAttribute("aria-pressed", button.dataset.value === value);
  };
  press(value);
  group.addEventListener("click", (click) => {
    const { value } = click.target.dataset;
    if (!value) return;
    press(value);
    act(value);
  });
}

// Moves a box beside the pointer, within the window.
function placeBeside(box, x, y) {
  const { width, height } = box.getBoundingClientRect();
  const left = x + 18 + width > innerWidth - 8 ? x - 18 - width : x + 18;
  const top = Math.min(y + 14, innerHeight - height - 8);
  box.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
}
