// Keyboard focus.

const byId = (id) => document.getElementById(id);

const canHaveFocus = (element) =>
  Boolean(element?.isConnected && !element.disabled && element.getClientRects().length > 0);

// Makes a change that may remove the focused element. Focus moves to the element with the same id,
// or to the message box; otherwise the keyboard would start at the top of the page.
export function keepFocus(change) {
  const had = document.activeElement;
  change();
  if (!had || had === document.body || canHaveFocus(had)) return;
  const same = had.id ? byId(had.id) : null;
  (canHaveFocus(same) ? same : byId("text")).focus();
}
