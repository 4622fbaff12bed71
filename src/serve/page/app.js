// Says how the server is.
const status = document.getElementById("status");

try {
  const health = await (await fetch("/health")).json();
  status.textContent = `${health.status}: ${health.running} running, ${health.waiting} waiting`;
} catch (error) {
  status.textContent = `no answer: ${error.message}`;
}
