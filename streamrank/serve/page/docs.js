// Every path of the OpenAPI document: what it does, takes and answers.

const described = await (await fetch("/openapi.json")).json();
const element = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
const schema = (content) => content?.["application/json"]?.schema;

const parts = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, what]) => {
    const section = document.createElement("section");
    section.append(element("h2", `${method.toUpperCase()} ${path}`), element("p", what.summary));
    const takes = schema(what.requestBody?.content);
    if (takes) section.append(element("pre", `takes ${JSON.stringify(takes, null, 1)}`));
    const answers = Object.entries(what.responses).map(([code, one]) => `${code}  ${one.description}`);
    section.append(element("pre", answers.join("\n")));
    return section;
  }));
parts.push(element("h2", "schemas"), element("pre", JSON.stringify(described.components.schemas, null, 1)));
document.getElementById("paths").replaceChildren(...parts);
