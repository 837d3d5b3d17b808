// Creates a container in a storage account: node create-container.js ENDPOINT ACCOUNT KEY NAME
const crypto = require("node:crypto");

const [endpoint, account, key, name] = process.argv.slice(2);
const url = new URL(`${endpoint}/${name}?restype=container`);
const date = new Date().toUTCString();
const version = "2023-11-03";
// Verb and eleven headers, of which none is sent; then Azure's own headers and the resource, which has the account twice: as owner and in the path.
const signed = `PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:${date}\nx-ms-version:${version}\n/${account}${url.pathname}\nrestype:container`;
const signature = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(signed, "utf8").digest("base64");
const headers = { "x-ms-date": date, "x-ms-version": version, authorization: `SharedKey ${account}:${signature}` };
fetch(url, { method: "PUT", headers }).then(async (answer) => {
  if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`);
});
